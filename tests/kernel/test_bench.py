"""The benches of the packet path on a lab of their own: both sides of the ratio are real, and nothing stays behind."""

from __future__ import annotations

import subprocess

import pytest

from testbed.bench import fabric, memory, spray
from testbed.fabric import plan
from testbed.lab import state

pytestmark = pytest.mark.kernel

PAIR = ("h0", "h1")
NAME = "bench-test"


def test_verified_writes_and_raw_frames_over_bare_veths() -> None:
    with fabric.lab(spray.SPEC.model_copy(update={"name": NAME})) as running:
        fabric.unshape(running)
        for node in running.clos.nodes:
            command = ["tc", "-n", plan.namespace_name(NAME, node), "qdisc", "show"]
            assert "htb" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout
        before = running.agent("h0").call("hello")["pid"]
        with fabric.without_agents(running):
            assert not any(path.exists() for path in running.dir.glob("agents/*.sock"))
            raw = fabric.blast(running, [PAIR], spray.PAYLOAD_BYTES, 0.3)
        assert running.agent("h0").call("hello")["pid"] != before
        goodput, totals = fabric.verified(running, [PAIR], spray.PAYLOAD_BYTES, 0.3)
        assert totals.bytes_wrong == 0 and totals.bytes_delivered == totals.bytes_sent > 100 * spray.PAYLOAD_BYTES
        assert 0.02 < goodput / spray.PAYLOAD_BYTES / raw < 1.5
    assert NAME not in state.names()


def test_raw_frames_take_every_path_and_none_is_made_up() -> None:
    with fabric.lab(spray.SPEC.model_copy(update={"name": NAME})) as running, fabric.without_agents(running):
        built = fabric.frames(running, *PAIR, spray.PAYLOAD_BYTES)
        assert len(built) == len({frame for _, frame in built}) == 4  # two planes, two T1s
        received = fabric.Received(running, ["h1"])
        before = received.packets()
        rates = [fabric.blast(running, [pair], spray.PAYLOAD_BYTES, 0.2) for pair in (PAIR, PAIR[::-1])]
        assert all(rate > 0 for rate in rates) and received.packets() > before


def test_an_interrupted_bench_of_memory_leaves_no_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(memory, "_settled_kb", interrupted)
    with pytest.raises(KeyboardInterrupt):
        memory._kernel_parts(spray.SPEC.model_copy(update={"name": NAME}))
    assert NAME not in state.names()
