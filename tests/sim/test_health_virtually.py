"""Clustermapper in virtual time: the same probers in the NICs, over the simulated ports, beside traffic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.health.gather import Mapper
from testbed.sim.lab import SimLab
from testbed.topology.labspec import LabSpec

INTERVAL_NS = 20_000_000
SPEC = LabSpec.model_validate(
    {
        "name": "health",
        "planes": 2,
        "t0_groups": 2,
        "hosts_per_t0": 2,
        "t1s_per_plane": 2,
        "health": {"policy": "observe", "interval": "20 ms"},
    }
)


def lab_and_mapper(seed: int, policy: str = "observe") -> tuple[SimLab, Mapper]:
    health = SPEC.health.model_copy(update={"policy": policy})
    lab = SimLab(SPEC.model_copy(update={"health": health}), seed=seed)
    for host in lab.hosts:
        host.settle()
    return lab, Mapper(lab.agents, SPEC)


@pytest.mark.parametrize("link", ["h1:p0t0-0", "p1t0-1:p1t1-0"])
def test_a_silent_link_is_found_with_no_workload_running(link: str, seed: int) -> None:
    lab, mapper = lab_and_mapper(seed)
    lab.run(20 * INTERVAL_NS)
    assert mapper.look().accused == {}
    lab.network.silence(link, down=False)
    lab.run(10 * INTERVAL_NS)
    assert mapper.look().accused == {link: "down"}
    lab.network.unsilence(link)
    lab.run(10 * INTERVAL_NS)
    assert mapper.look().accused == {}


def test_full_load_is_neither_loss_nor_slowness(seed: int) -> None:
    lab, mapper = lab_and_mapper(seed)
    lab.start_flows([(0, 2), (1, 3), (2, 0), (3, 1)], load_bps=None)
    up, _ = lab.network.directions("p0t0-0:p0t1-0")
    up.set_port(replace(up.port, kmin_bytes=0, kmax_bytes=1, trim_at_bytes=5_000))  # marks all, trims soon
    for _ in range(15):
        lab.run(10 * INTERVAL_NS)
        assert mapper.look().accused == {}
    found = mapper.look()
    assert sum(path.lost for report in found.reports.values() for path in report.paths) == 0
    assert found.findings["p0t0-0:p0t1-0"].marked > 0.2 and found.findings["p0t0-0:p0t1-1"].marked < 0.1
    assert up.counts["trimmed"] > 0
    assert lab.drain(2_000_000_000)


def test_a_dead_nic_link_is_denied_and_the_traffic_goes_on(seed: int) -> None:
    lab, mapper = lab_and_mapper(seed, "act")
    lab.start_flows([(0, 2), (2, 0)], load_bps=None)
    lab.run(20 * INTERVAL_NS)
    for direction in lab.network.directions("h0:p0t0-0"):
        direction.set_port(replace(direction.port, loss=0.5))
    lab.run(60 * INTERVAL_NS)
    assert mapper.look().denied == {"h0": [0]}
    before = lab.hosts[0].nic.queue_pairs
    lost = [pair.counters.packets_lost for pair in before.values()]
    lab.run(60 * INTERVAL_NS)
    assert [pair.counters.packets_lost for pair in before.values()] == lost
    assert lab.drain(4_000_000_000)
    decisions = [event for host, event in lab.log if type(event).__name__ == "PlaneDecided"]
    assert [(one.plane, one.action) for one in decisions] == [(0, "denied")]


def test_a_host_that_leaves_is_replaced_in_its_share(seed: int) -> None:
    lab, mapper = lab_and_mapper(seed)
    lab.network.silence("h0:p0t0-0")
    lab.run(12 * INTERVAL_NS)
    mapper.look()
    lab.run(12 * INTERVAL_NS)
    found = mapper.look()
    assert found.accused == {"h0:p0t0-0": "down"}
    assert all(found.findings[f"p0t0-0:p0t1-{t1}"].state == "ok" for t1 in range(2))
    assert found.findings["p0t0-0:p0t1-0"].found_by == (1,)
