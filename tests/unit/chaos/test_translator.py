"""Queue pairs that share a flow are one flow in the record, also when new ones take their place."""

from __future__ import annotations

from typing import Any

from testbed.chaos.collector import Translator
from testbed.measure.record import EvCount, Flow, Received, RunEvent

FLOW = Flow("h0", "h4", 0.0)


class Kept:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, tuple[int, ...]]] = []
        self.evs: list[tuple[int, dict[str, int]]] = []

    def received(self, flow: str, sample: Received) -> None:
        assert flow == FLOW.name
        self.samples.append((sample.t_ns, sample.bytes_by_plane))

    def ev_count(self, flow: str, sample: EvCount) -> None:
        self.evs.append((sample.t_ns, sample.states))

    def event(self, event: RunEvent) -> None: ...


def sample(t_ns: int, qpn: int, *bytes_by_port: int, **evs: int) -> dict[str, Any]:
    return {"t_ns": t_ns, "qpn": qpn, "bytes_received_by_port": list(bytes_by_port), "evs": evs}


def test_lanes_are_added_up_at_each_beat() -> None:
    kept = Kept()
    translator = Translator(kept)
    for qpn in (16, 17):
        translator.add(FLOW, qpn, qpn + 10)
        translator.add(FLOW, qpn, qpn + 10)  # told again: no effect
    translator.take("h4", [sample(1, 26, 5, 0), sample(1, 27, 1, 2), sample(2, 26, 9, 0), sample(2, 27, 1, 4)], [])
    translator.take("h0", [sample(1, 16, GOOD=3, ASSUMED_BAD=1), sample(1, 17, GOOD=4)], [])
    assert kept.samples == [(1, (6, 2)), (2, (10, 4))]
    assert kept.evs == [(1, {"GOOD": 7, "ASSUMED_BAD": 1})]


def test_what_gone_queue_pairs_had_still_counts() -> None:
    kept = Kept()
    translator = Translator(kept)
    translator.add(FLOW, 16, 26)
    translator.take("h4", [sample(1, 26, 5, 5)], [])
    translator.add(FLOW, 18, 28)
    translator.take("h4", [sample(2, 28, 1, 0)], [])
    assert kept.samples == [(1, (5, 5)), (2, (6, 5))]


def test_a_new_agent_that_gives_the_same_numbers_begins_at_what_was_there() -> None:
    kept = Kept()
    translator = Translator(kept)
    translator.add(FLOW, 16, 26)
    translator.take("h4", [sample(1, 26, 5, 5), sample(2, 26, 1, 0), sample(3, 26, 2, 0)], [])
    assert kept.samples == [(1, (5, 5)), (2, (6, 5)), (3, (7, 5))]
