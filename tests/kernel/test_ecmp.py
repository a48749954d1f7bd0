"""A lab that hashes: static multipath routes, what it sees of broken links and what not, and faults undone exactly.

h0, h1 -- T0-0 -- T1-0, T1-1 -- T0-1 -- h2, h3      in each of two planes
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.wire import ev as entropy
from testbed.chaos import by_hand
from testbed.chaos.runner import RunResult, run_scenario
from testbed.chaos.scenario import load_scenario
from testbed.fabric import messages, observe, plan
from testbed.fabric.netlink import KernelError
from testbed.fabric.objects import Rule
from testbed.lab import lifecycle
from testbed.lab.repair import repair
from testbed.lab.running import RunningLab, exec_in, open_lab
from testbed.lab.verify import PathError
from testbed.lab.verify_hashed import HashedProof, prove_hashed, verify_hashed
from testbed.topology import library
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(90)]

LAB = "ba-hash"
LINK = "p0t0-0:p0t1-1"
EVS = 24  # that all of them are hashed onto one of two T1s has a probability of 1e-7

ROCE = """\
planes: 1
t0_groups: 2
hosts_per_t0: 2
t1s_per_plane: 2
rates: {host: 40 Mb/s, fabric: 40 Mb/s}
stands_for: {host: 400 Gb/s, fabric: 400 Gb/s}
routing: ecmp
transport: {kind: roce}
"""

TRAFFIC = """\
lab: {lab}
duration: 1500 ms
warmup: 500 ms
workloads:
  - {{kind: write_bw, pairs: across, message: 32 KB, load: 30%}}
expect: {{bytes_wrong: 0, qp_errors: 0, undelivered_messages: 0}}
"""


def up(path: Path, text: str) -> None:
    path.write_text(text)
    lifecycle.up(load_lab(path), path)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    text = library.find("topologies", "tiny").read_text() + "routing: ecmp\n"
    try:
        up(tmp_path_factory.mktemp("labs") / f"{LAB}.yaml", text)
        with open_lab(LAB) as running:
            yield running
    finally:
        lifecycle.down(LAB)


@pytest.fixture(autouse=True)
def as_before(lab: RunningLab) -> Iterator[None]:
    """After each test the kernel is as before, and the hosts reach each other."""
    before = whole(lab)
    yield
    assert by_hand.active(lab) == []
    assert whole(lab) == before
    assert eventually(lambda: all(proof.answered for proof in probes(lab, count=4)))


def whole(lab: RunningLab) -> Any:
    return observe.snapshot(lab.kernel, lab.clos.nodes, lab.port_map)


def eventually(condition: Callable[[], bool], within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


def probes(lab: RunningLab, count: int = EVS) -> list[HashedProof]:
    """One probe from h0 to h2 with each of so many EVs in plane 0."""
    evs = [entropy.make(0, 0, number) for number in range(count)]
    with lab.agent("h0") as agent:
        return prove_hashed(lab.clos, lab.port_map, lab.ev_uses, agent, ("h0", "h2"), evs)


def answered(lab: RunningLab, evs: list[int]) -> list[bool]:
    with lab.agent("h0") as agent:
        results = agent.call("probe", peer=2, evs=evs, timeout_ns=200_000_000)["results"]
    return [one["answered"] for one in results]


def test_it_is_as_planned_and_the_hash_takes_every_t1_and_keeps_to_it(lab: RunningLab) -> None:
    assert observe.differences(lab.plan, lab.kernel, lab.port_map) == []
    first, again = probes(lab), probes(lab)
    assert {proof.nodes[1] for proof in first} == {"p0t1-0", "p0t1-1"}
    assert [proof.nodes for proof in again] == [proof.nodes for proof in first]


def test_ordinary_tools_reach_every_host(lab: RunningLab) -> None:
    assert all(exec_in(lab, "h0", ["ping", "-q", "-c1", "-W2", host]) == 0 for host in lab.hosts[1:])


def test_meddling_is_seen_and_mended(lab: RunningLab) -> None:
    assert exec_in(lab, "p0t0-0", ["ip", "-6", "route", "del", "fd6d:7263::/96"]) == 0
    found = observe.differences(lab.plan, lab.kernel, lab.port_map)
    assert {(item.node, item.section, item.reason) for item in found} == {("p0t0-0", "hops", "missing")}
    assert len(found) == 2
    assert repair(LAB).left == []


def test_a_path_that_is_not_used_is_no_proof(lab: RunningLab) -> None:
    uplink = next(port for port, _ in lab.clos.ports("p1t0-0") if port.name == "p1t1-0")
    lab.ports.take_down(uplink)
    try:
        with pytest.raises(PathError, match=r"hashed onto p1t1-0|paths do not work"), lab.agents() as agents:
            verify_hashed(lab.clos, lab.port_map, lab.ev_uses, agents, lambda done, of: None)
    finally:
        lab.ports.bring_up(uplink)


def test_its_own_dead_link_a_t0_leaves_out_and_what_lies_behind_it_does_not_see(lab: RunningLab) -> None:
    before = probes(lab)
    over = [proof.ev for proof in before if proof.nodes == ["p0t0-0", "p0t1-1", "p0t0-1"]]
    fault = by_hand.put(lab, "link-down", LINK, "near")
    try:
        after = probes(lab)
        # T0-0 hashes over what is left; the answers of T0-1 still come to T1-1 in part, which has no way on
        assert all(proof.nodes == ["p0t0-0", "p0t1-0", "p0t0-1"] for proof in after)
        assert not all(proof.answered for proof in after)
        assert all(proof.answered for proof in after if "p0t1-0" in proof.nodes_back)
    finally:
        by_hand.clear(lab, fault.number)
    assert over
    assert eventually(lambda: [proof.nodes for proof in probes(lab)] == [proof.nodes for proof in before])


def test_a_link_whose_far_end_is_off_is_left_out_once_the_carrier_is_gone(lab: RunningLab) -> None:
    fault = by_hand.put(lab, "link-down", LINK, "far")
    try:
        assert eventually(lambda: all(proof.nodes[:2] == ["p0t0-0", "p0t1-0"] for proof in probes(lab)))
    finally:
        by_hand.clear(lab, fault.number)


def test_a_silent_death_is_never_seen(lab: RunningLab) -> None:
    evs = [proof.ev for proof in probes(lab) if proof.nodes == ["p0t0-0", "p0t1-1", "p0t0-1"]]
    fault = by_hand.put(lab, "black-hole", LINK, "near")
    try:
        for _ in range(3):
            assert not any(answered(lab, evs))
    finally:
        by_hand.clear(lab, fault.number)


def test_a_t1_without_tables_forwards_nothing_and_they_come_back(lab: RunningLab) -> None:
    fault = by_hand.put(lab, "t1-reboot", "switch p0t1-1")
    try:
        rules = observe.node(lab.kernel, "p0t1-1").rules
        assert Rule(2, "blackhole") in rules
        assert eventually(lambda: all("p0t1-1" not in proof.nodes for proof in probes(lab)))
    finally:
        by_hand.clear(lab, fault.number)


def test_tables_that_are_gone_hold_what_comes_though_all_links_are_up(lab: RunningLab) -> None:
    evs = [proof.ev for proof in probes(lab) if "p0t1-1" in proof.nodes]
    lab.tables.forget("p0t1-1")
    lab.tables.forget("p0t1-1")
    try:
        assert not any(answered(lab, evs))
    finally:
        lab.tables.program("p0t1-1")
        lab.tables.program("p0t1-1")


@pytest.mark.parametrize(
    ("kind", "target"),
    [("t0-power-loss", "switch p0t0-0"), ("plane-down", "plane 0"), ("nic-transceiver", "transceiver h0")],
)
def test_what_takes_every_next_hop_is_undone(lab: RunningLab, kind: str, target: str) -> None:
    fault = by_hand.put(lab, kind, target)
    assert not any(proof.answered for proof in probes(lab, count=2))
    by_hand.clear(lab, fault.number)


@pytest.mark.parametrize(
    ("kind", "target", "says"),
    [("ev-loss", "host h0 plane 0 t1 0", "no packet says so"), ("denylist-set", LINK, "no EV names a T0-T1 link")],
)
def test_what_needs_paths_by_name_is_refused(lab: RunningLab, kind: str, target: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        by_hand.put(lab, kind, target)
    assert caught.value.exit_code == 2


def test_one_ev_can_lose_alone(lab: RunningLab) -> None:
    evs = [entropy.make(0, 0, number) for number in range(4)]
    fault = by_hand.put(lab, "ev-loss", f"host h0 ev {evs[2]:#x}", options={"loss": 1.0})
    try:
        assert answered(lab, evs) == [True, True, False, True]
    finally:
        by_hand.clear(lab, fault.number)


def test_a_next_hop_whose_device_is_down_is_refused_in_words(lab: RunningLab) -> None:
    with pytest.raises(KernelError, match="route fd6d:7263::/96"):
        absent = plan.build(lab.clos).last_ifindex + 1000
        hop = next(hop for hop in lab.plan.nodes["p0t0-0"].hops if hop.dst.endswith("/96"))
        lab.kernel["p0t0-0"].send([messages.hop(hop, absent)])


def run(lab: RunningLab, folder: Path) -> RunResult:
    path = folder / "case.yaml"
    path.write_text(TRAFFIC.format(lab=lab.name))
    return run_scenario(load_scenario(path), lab, folder / "out", report=False)


def test_mrc_sprays_over_it(lab: RunningLab, tmp_path: Path) -> None:
    before = {name: lab.port_map.counters(link.b.ifindex).packets for name, link in lab.clos.links.items()}
    result = run(lab, tmp_path)
    assert all(flow["bytes_wrong"] == 0 < flow["bytes_delivered"] for flow in result.summary["flows"])
    for name, link in lab.clos.links.items():  # T1s send to both racks, in both planes
        if link.tier == "t0-t1":
            assert lab.port_map.counters(link.b.ifindex).packets - before[name] > 50


def test_faults_know_roces_data_too(tmp_path: Path) -> None:
    name = "ba-hash-spoil"
    try:
        up(tmp_path / f"{name}.yaml", ROCE)
        with open_lab(name) as lab:
            fault = by_hand.put(lab, "corrupt", "host h0", "near", {"share": 0.05})
            result = run(lab, tmp_path)
            by_hand.clear(lab, fault.number)
            port, _ = lab.clos.ports("h0")[0]
            assert lab.port_map.counters(port.ifindex).corrupted > 0
        assert all(flow["bytes_wrong"] == 0 < flow["bytes_delivered"] for flow in result.summary["flows"])
        assert result.summary["flows"][0]["packets"]["lost"] > 0  # the ICRC told, and they went again
    finally:
        lifecycle.down(name)


def test_roce_delivers_on_one_path_each(tmp_path: Path) -> None:
    name = "ba-hash-roce"
    try:
        up(tmp_path / f"{name}.yaml", ROCE)
        with open_lab(name) as lab:
            for port, _ in (pair for node in lab.clos.nodes for pair in lab.clos.ports(node)):
                lab.port_map.change(port.ifindex, watch_evs=True)
            result = run(lab, tmp_path)
            names = {link.a.ifindex: link.name for link in lab.clos.links.values() if link.tier == "t0-t1"}
            uplinks: dict[tuple[int, int, int], list[str]] = {}
            for use in lab.ev_uses():
                if use.ifindex in names and use.packets > 20:
                    uplinks.setdefault((use.src, use.dst, use.ev), []).append(names[use.ifindex])
        assert all(flow["bytes_wrong"] == 0 < flow["bytes_delivered"] for flow in result.summary["flows"])
        assert len(uplinks) >= 4  # data of four flows, and acknowledgements
        assert all(len(found) == 1 for found in uplinks.values())
    finally:
        lifecycle.down(name)
