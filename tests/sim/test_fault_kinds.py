"""Every kind of fault in virtual time: put in, undone to the last setting, and no byte wrong all the while."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from testbed.chaos.injector import Injector
from testbed.chaos.journal import MemoryJournal
from testbed.chaos.kinds import KINDS
from testbed.chaos.scenario import load_scenario
from testbed.chaos.virtual import simulate
from testbed.chaos.virtual_hands import SimHands
from testbed.sim.lab import SimLab
from testbed.topology.clos import Port
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab
from testbed.topology.port_settings import PortSettings, planned

MS = 10**6
TARGETS = {
    "links": "p0t0-0:p0t1-1",
    "host": "host h1",
    "switch": "switch p0t0-1",
    "t0": "switch p0t0-1",
    "t1": "switch p0t1-1",
    "plane": "plane 1",
    "t0-transceiver": "transceiver p0t0-0 0",
    "nic-transceiver": "transceiver h1",
    "ev": "host h0 ev 0x0020c000",
}
VIRTUAL = sorted(set(KINDS) - {"agent-restart"})


def settings(lab: SimLab) -> dict[Port, PortSettings]:
    return {port: lab.ports.settings(port) for link in lab.clos.links.values() for port in link.ends()}


def as_planned(lab: SimLab) -> dict[Port, PortSettings]:
    return {port: planned(lab.clos, port, link) for link in lab.clos.links.values() for port in link.ends()}


@pytest.mark.parametrize("kind", VIRTUAL)
def test_a_fault_is_undone_and_no_byte_is_wrong(kind: str) -> None:
    lab = SimLab(load_lab("tiny"), seed=1)
    injector = Injector(lab.clos, MemoryJournal(), SimHands(lab), lambda: lab.events.now)
    pairs = [(0, 2), (1, 3), (2, 0), (3, 1)]
    lab.start_flows(pairs, load_bps=12_000_000)
    lab.run(200 * MS)
    fault = injector.put(kind, TARGETS[KINDS[kind].takes], by="hand")
    lab.run(150 * MS)
    injector.undo(fault.number)
    assert settings(lab) == as_planned(lab)
    assert lab.drain(within_ns=3000 * MS)
    for flow in lab.flows:
        sent, received = flow.sender.counters, flow.receiver.counters
        assert received.bytes_delivered == sent.bytes_posted > 0
        assert received.bytes_wrong == 0


def test_overlapping_faults_in_any_order_leave_nothing_behind() -> None:
    rng = Random(7)
    lab = SimLab(load_lab("tiny"), seed=2)
    injector = Injector(lab.clos, MemoryJournal(), SimHands(lab), lambda: lab.events.now)
    lab.start_flows([(0, 2), (3, 1)], load_bps=12_000_000)
    put: list[int] = []
    for _ in range(60):
        if put and rng.random() < 0.45:
            injector.undo(put.pop(rng.randrange(len(put))))
        else:
            kind = rng.choice(VIRTUAL)
            put.append(injector.put(kind, TARGETS[KINDS[kind].takes], by="hand", seed=rng.getrandbits(32)).number)
        lab.run(rng.randrange(10 * MS))
    injector.undo_all()
    assert settings(lab) == as_planned(lab)
    assert not injector.active()
    lab.run(1500 * MS)
    before = [flow.receiver.counters.bytes_delivered for flow in lab.flows]
    lab.run(500 * MS)
    assert all(flow.receiver.counters.bytes_delivered > then for flow, then in zip(lab.flows, before, strict=True))
    assert all(flow.receiver.counters.bytes_wrong == 0 for flow in lab.flows)


def test_of_two_delays_the_latest_stands_with_its_jitter_whoever_put_them_in() -> None:
    lab, journal = SimLab(load_lab("tiny"), seed=1), MemoryJournal()
    told: list[tuple[int, int]] = []

    class Hands(SimHands):  # of another process each time
        def delay(self, port: Port, delay_ns: int, jitter_ns: int) -> None:
            told.append((delay_ns, jitter_ns))

    def injector() -> Injector:
        return Injector(lab.clos, journal, Hands(lab), lambda: lab.events.now)

    numbers = [
        injector().put("delay", TARGETS["links"], "near", {"delay": delay_ns, "delay_jitter": MS}, by="hand").number
        for delay_ns in (2 * MS, 5 * MS)
    ]
    for number in reversed(numbers):
        injector().undo(number)
    assert told == [(2 * MS, MS), (5 * MS, MS), (2 * MS, MS), (0, 0)]


def test_what_needs_a_process_is_refused_in_words_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "restart.yaml"
    file.write_text(
        "lab: tiny\nduration: 3 s\nworkloads: [{kind: write_bw}]\n"
        "faults: [{kind: agent-restart, target: host h1, at: 1 s}]\n"
    )
    with pytest.raises(InputError, match="does not exist in virtual time"):
        simulate(load_scenario(file), load_lab("tiny"), tmp_path / "out")


def test_faults_by_chance_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text(
        "lab: tiny\nduration: 1500 ms\nwarmup: 300 ms\nworkloads: [{kind: write_bw, load: 50%}]\n"
        "faults: [{kind: link-down, target: 'links tier=t0-t1', mtbf: 800 ms, mttr: 60 ms}]\n"
        "expect: {bytes_wrong: 0, qp_errors: 0, undelivered_messages: 0}\n"
    )

    def run(name: str, seed: int) -> dict[str, Any]:
        return simulate(load_scenario(file), load_lab("tiny"), tmp_path / name, seed=seed, real_rates=True).summary

    first, again, other = run("first", 4), run("again", 4), run("other", 5)
    assert first["verdict"] == "pass" and len(first["faults"]) > 3
    assert first == again
    assert [fault["at_s"] for fault in first["faults"]] != [fault["at_s"] for fault in other["faults"]]
