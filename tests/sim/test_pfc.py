"""Priority flow control in virtual time: nothing is dropped, and who shares a paused link suffers with the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.chaos.scenario import load_scenario
from testbed.chaos.virtual import simulate
from testbed.lab import lifecycle
from testbed.sim.lab import SimLab
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab
from testbed.topology.labspec import LabSpec
from testbed.topology.sizes import payload_share

MS, S = 10**6, 10**9
RATE_BPS = 80_000_000
CROWD, VICTIM = [(src, 0) for src in (4, 5, 6)], (7, 1)


def a_lab(seed: int = 1, **queue: Any) -> SimLab:
    """One plane, two racks of four hosts, one T1: the incast and its victim come down the same link."""
    spec = LabSpec.model_validate(
        {
            "name": "pfc",
            "planes": 1,
            "t0_groups": 2,
            "hosts_per_t0": 4,
            "t1s_per_plane": 1,
            "rates": {"host": "80 Mb/s", "fabric": "320 Mb/s"},
            "stands_for": {"host": "100 Gb/s", "fabric": "400 Gb/s"},
            "queue": queue,
            "routing": "ecmp",
            "transport": {"kind": "roce"},
        }
    )
    return SimLab(spec, seed=seed)


def shares(lab: SimLab, pairs: list[tuple[int, int]], for_ns: int = 600 * MS) -> list[float]:
    """Each flow's goodput at full load, of what a host can send."""
    lab.start_flows(pairs, load_bps=None)
    lab.run(400 * MS)
    before = [sum(flow.receiving_qp.bytes_received_by_port) for flow in lab.flows]
    lab.run(for_ns)
    after = [sum(flow.receiving_qp.bytes_received_by_port) for flow in lab.flows]
    for flow in lab.flows:
        assert (flow.receiver.counters.bytes_wrong, flow.receiver.counters.messages_unexpected) == (0, 0)
    return [8 * S * (new - old) / for_ns / RATE_BPS / payload_share() for old, new in zip(before, after, strict=True)]


def test_an_incast_loses_nothing_and_its_victim_is_held_up_with_it() -> None:
    """Without rate control: lossy, the crowd's packets are dropped; lossless, the victim waits behind them."""
    lossy = a_lab(ecn=False, size="256 KB", trim_at="256 KB")
    *_, victim_lossy = shares(lossy, [*CROWD, VICTIM])
    assert lossy.network.fates()["queue full"] > 100
    lossless = a_lab(ecn=False, pfc=True)
    *crowd, victim = shares(lossless, [*CROWD, VICTIM])
    fates = lossless.network.fates()
    assert fates["queue full"] == 0 and fates["paused"] > 10
    assert 0 <= fates["paused"] - fates["resumed"] <= 8, "at most one pause a link lasts"
    assert not any(flow.sending_qp.counters.packets_lost for flow in lossless.flows)
    assert sum(crowd) == pytest.approx(1, rel=0.05), "the receiver's port stays full"
    assert victim < 0.5, "its own port is idle more than half of the time"
    assert victim_lossy > 0.9


def test_rate_control_keeps_queues_below_the_pause() -> None:
    paused = {}
    for ecn in (True, False):
        lab = a_lab(ecn=ecn, ecn_last_hop=True, pfc=True)
        shares(lab, [*CROWD, VICTIM])
        paused[ecn] = lab.network.fates()["paused"]
    assert paused[True] < paused[False]


def test_alone_a_flow_is_as_fast_as_without() -> None:
    with_pfc, without = (shares(a_lab(pfc=pfc), [(4, 0)])[0] for pfc in (True, False))
    assert with_pfc == pytest.approx(without, rel=0.01) and without > 0.97


def test_a_pause_does_not_outlive_the_link() -> None:
    lab = a_lab(ecn=False, pfc=True)
    lab.start_flows([*CROWD, VICTIM], load_bps=None)
    lab.run(200 * MS)
    for _ in range(5):
        lab.network.cut("p0t0-1:p0t1-0")
        lab.run(17 * MS)
        lab.network.mend("p0t0-1:p0t1-0")
        lab.run(113 * MS)
    assert lab.network.fates()["queue full"] == 0
    assert lab.drain(60 * S), "every message arrives, late"
    lab.run(100 * MS)
    for link in lab.clos.links:
        for direction in lab.network.directions(link):
            assert (direction.held_bytes, direction.depth_bytes(), direction.paused) == (0, 0, False)  # type: ignore[attr-defined]


def test_mrc_goes_over_it_too(tmp_path: Path) -> None:
    spec = load_lab("tiny")
    spec = LabSpec.model_validate({**spec.model_dump(mode="json", exclude_unset=True), "queue": {"pfc": True}})
    scenario = load_scenario("permutation", ("lab=tiny", "duration=2 s", "warmup=500 ms"))
    outcome = simulate(scenario, spec, tmp_path)
    assert outcome.verdict == "pass"
    [streams] = outcome.summary["workloads"]
    assert streams["min_flow_share"] > 0.95


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ({"xoff": "1 MB"}, "before they are all paused"),
        ({"xoff": "4 KB", "xon": "4 KB"}, "holds no two packets"),
        ({"xon": "256 KB"}, "xon is above xoff"),
    ],
)
def test_thresholds_that_cannot_work_are_refused(queue: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        a_lab(pfc=True, **queue)


def test_the_kernel_lab_refuses_it() -> None:
    with pytest.raises(InputError, match="PFC") as refused:
        lifecycle.up(a_lab(pfc=True).spec, "pfc.yaml")
    assert refused.value.exit_code == 2
