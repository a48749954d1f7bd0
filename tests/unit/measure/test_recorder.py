"""What is seen goes into the run and, line by line, into the two files."""

import json
from pathlib import Path

from testbed.measure.record import EvCount, FaultActed, Received
from testbed.measure.recorder import EVENTS_FILE, SAMPLES_FILE, Recorder
from tests.unit.measure import handmade
from tests.unit.measure.handmade import LINK, loss, ns, port_change


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_samples_go_into_run_and_file(tmp_path: Path) -> None:
    run = handmade.run()
    run.received = {}
    with Recorder(run, tmp_path) as recorder:
        recorder.received("h0>h2", Received(ns(0.25), (1, 2, 3, 4)))
        recorder.ev_count("h0>h2", EvCount(ns(0.25), {"GOOD": 15, "ASSUMED_BAD": 1}))
    assert run.received["h0>h2"] == [Received(ns(0.25), (1, 2, 3, 4))]
    assert lines(tmp_path / SAMPLES_FILE) == [
        {"t_s": 0.25, "t_ns": ns(0.25), "flow": "h0>h2", "bytes_by_plane": [1, 2, 3, 4]},
        {"t_s": 0.25, "t_ns": ns(0.25), "flow": "h0>h2", "evs": {"GOOD": 15, "ASSUMED_BAD": 1}},
    ]


def test_events_say_what_they_are(tmp_path: Path) -> None:
    run = handmade.run()
    with Recorder(run, tmp_path) as recorder:
        for event in (
            loss(1),
            port_change(2, False),
            FaultActed(ns(3), 1, "link-down", LINK, "near", True, ns(3.001)),
        ):
            recorder.event(event)
    rows = lines(tmp_path / EVENTS_FILE)
    assert [row["event"] for row in rows] == ["packet-lost", "plane-changed", "fault"]
    assert rows[0]["sent_ns"] == ns(1)
    assert rows[2]["done_ns"] == ns(3.001)
    assert len(run.events) == 3


def test_what_was_flushed_is_there_when_the_process_dies(tmp_path: Path) -> None:
    recorder = Recorder(handmade.run(), tmp_path)
    recorder.event(loss(1))
    recorder.flush()
    assert len(lines(tmp_path / EVENTS_FILE)) == 1
    recorder.close()
