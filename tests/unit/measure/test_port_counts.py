"""Counters of ports: differences, sums, and which ports are worth a line."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.measure.ports import PortCount, notable, total
from testbed.measure.recorder import SAMPLES_FILE, Recorder
from tests.unit.measure import handmade
from tests.unit.measure.handmade import ns

QUIET = PortCount(packets=100, bytes=400_000)
MARKING = PortCount(packets=100, marked=5, queue_max_bytes=50_000)
TRIMMING = PortCount(packets=100, trimmed=1, queue_max_bytes=260_000)
BROKEN = PortCount(packets=100, dropped_loss=1, dropped_black_hole=2)


def test_a_stretch_of_time_is_the_difference_of_two_readings_and_its_own_queue() -> None:
    earlier = PortCount(packets=10, bytes=1000, marked=1, queue_max_bytes=9000)
    now = PortCount(packets=15, bytes=1500, marked=1, trimmed=2, queue_max_bytes=4000)
    assert now.since(earlier) == PortCount(packets=5, bytes=500, trimmed=2, queue_max_bytes=4000)


def test_stretches_add_up_but_their_queues_do_not() -> None:
    both = PortCount(packets=1, dropped_queue=2, queue_max_bytes=10).and_then(PortCount(packets=3, queue_max_bytes=7))
    assert both == PortCount(packets=4, dropped_queue=2, queue_max_bytes=10)
    counts = {"a": QUIET, "b": MARKING, "c": BROKEN}
    assert total(counts) == PortCount(300, 400_000, 5, 0, 0, 0, 1, 2, 50_000)
    assert total(counts).dropped == 3
    assert total({}) == PortCount()


def test_the_worst_ports_come_first_and_quiet_ones_not_at_all() -> None:
    counts = {"quiet": QUIET, "marking": MARKING, "trimming": TRIMMING, "broken": BROKEN}
    assert list(notable(counts)) == ["broken", "trimming", "marking"]


def test_samples_of_ports_go_into_run_and_file(tmp_path: Path) -> None:
    run = handmade.run()
    with Recorder(run, tmp_path) as recorder:
        recorder.ports(ns(0.2), {"h0>p0t0-0": QUIET, "p0t0-0>h0": BROKEN})
        recorder.ports(ns(0.4), {"h0>p0t0-0": QUIET})
    assert run.ports == {"h0>p0t0-0": QUIET.and_then(QUIET), "p0t0-0>h0": BROKEN}
    first, second = [json.loads(line) for line in (tmp_path / SAMPLES_FILE).read_text().splitlines()]
    assert first["ports"]["p0t0-0>h0"] == {"packets": 100, "dropped_loss": 1, "dropped_black_hole": 2}
    assert second["ports"] == {"h0>p0t0-0": {"packets": 100, "bytes": 400_000}}
