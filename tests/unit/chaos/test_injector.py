"""Faults on ports: journal first, counted per port, undone in reverse, also after errors and crashes.

The ports here are a set in memory; tests/kernel has the real ones.
"""

from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.chaos.injector import Injector
from testbed.chaos.journal import Journal
from testbed.chaos.kinds.kind import End
from testbed.topology.clos import Port
from testbed.topology.errors import InputError
from tests.unit.chaos import scenarios

LINK = "p0t0-0:p0t1-1"
OTHER = "h0:p1t0-0"
CLOS = scenarios.small_lab()


class Switchboard:
    """Ports that only remember whether they are down; `broken` ones refuse."""

    def __init__(self, journal: Journal) -> None:
        self.down: set[str] = set()
        self.broken: set[str] = set()
        self.acts: list[str] = []
        self._journal = journal

    def take_down(self, port: Port) -> None:
        assert self._journal.active(), "acted before the journal knew"
        self._act("down", port)
        self.down.add(port.node)

    def bring_up(self, port: Port) -> None:
        assert self._journal.active(), "the journal forgot it before it was undone"
        self._act("up", port)
        self.down.discard(port.node)

    def _act(self, what: str, port: Port) -> None:
        if port.node in self.broken:
            raise OSError(f"{port.node} refuses")
        self.acts.append(f"{what} {port.node}")


class Bench:
    """An injector with its journal and switchboard, and a clock that ticks with each look at it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.journal = Journal(folder)
        self.ports = Switchboard(self.journal)
        self.injector = Injector(CLOS, self.journal, self.ports, clock=count(1).__next__)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(("end", "nodes"), [("near", {"p0t0-0"}), ("far", {"p0t1-1"}), ("both", {"p0t0-0", "p0t1-1"})])
def test_link_down_switches_off_the_ends_it_names(bench: Bench, end: End, nodes: set[str]) -> None:
    fault = bench.injector.put("link-down", LINK, end, by="run")
    assert bench.ports.down == nodes
    assert fault.since_ns < fault.down_ns
    undone = bench.injector.undo(fault.number)
    assert bench.ports.down == set()
    assert undone.up_ns is not None and undone.until_ns is not None
    assert fault.down_ns < undone.up_ns < undone.until_ns
    assert bench.journal.faults() == [undone]


def test_a_port_that_two_faults_hold_comes_back_with_the_last(bench: Bench) -> None:
    first = bench.injector.put("link-down", LINK, "both", by="run")
    second = bench.injector.put("link-down", LINK, "near", by="hand")
    assert bench.ports.acts == ["down p0t0-0", "down p0t1-1"]
    bench.injector.undo(first.number)
    assert bench.ports.down == {"p0t0-0"}
    bench.injector.undo(second.number)
    assert bench.ports.down == set()


def test_undo_all_goes_backwards_and_leaves_what_others_put_in(bench: Bench) -> None:
    bench.injector.put("link-down", OTHER, "far", by="hand")
    bench.injector.put("link-down", LINK, "near", by="run")
    bench.injector.put("link-down", LINK, "far", by="run")
    undone = bench.injector.undo_all(by="run")
    assert [fault.number for fault in undone] == [3, 2]
    assert bench.ports.down == {"p1t0-0"}
    assert [fault.by for fault in bench.injector.active()] == ["hand"]
    bench.injector.undo_all()
    assert bench.ports.down == set()


def test_another_process_undoes_what_a_killed_one_left(bench: Bench) -> None:
    number = bench.journal.put("link-down", LINK, "near", "run", 1)  # killed between the journal and the act
    other = Injector(CLOS, Journal(bench.folder), bench.ports, clock=count(100).__next__)
    assert [fault.number for fault in other.undo_all()] == [number]
    assert bench.ports.acts == ["up p0t0-0"]  # bringing up what is up changes nothing
    assert other.active() == []


def test_when_the_kernel_refuses_half_of_it_the_other_half_is_taken_back(bench: Bench) -> None:
    bench.ports.broken.add("p0t1-1")
    with pytest.raises(OSError, match="refuses"):
        bench.injector.put("link-down", LINK, "both", by="run")
    bench.ports.broken.clear()
    bench.injector.undo_all()
    assert bench.ports.down == set()


def test_unknown_names_put_nothing_into_the_journal(bench: Bench) -> None:
    with pytest.raises(InputError, match="no fault kind 'link-up'"):
        bench.injector.put("link-up", LINK, "near", by="hand")
    assert bench.journal.faults() == []


def test_undoing_what_is_not_in_says_what_is(bench: Bench) -> None:
    with pytest.raises(InputError, match="no fault 4 is active; none is"):
        bench.injector.undo(4)
    bench.injector.put("link-down", LINK, "near", by="hand")
    with pytest.raises(InputError, match="no fault 4 is active; active: 1"):
        bench.injector.undo(4)


puts = st.tuples(st.sampled_from([LINK, OTHER]), st.sampled_from(["near", "far", "both"]))
steps = st.lists(st.one_of(puts, st.integers(0, 20)), max_size=20)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(steps)
def test_a_port_is_down_exactly_while_some_fault_names_it(
    tmp_path_factory: pytest.TempPathFactory, todo: list[tuple[str, End] | int]
) -> None:
    bench = Bench(tmp_path_factory.mktemp("faults"))
    for step in todo:
        active = bench.injector.active()
        if isinstance(step, tuple):
            bench.injector.put("link-down", *step, by="run")
        elif active:
            bench.injector.undo(active[step % len(active)].number)
        wanted = set()
        for fault in bench.injector.active():
            link = CLOS.links[fault.target]
            wanted |= {"near": {link.a.node}, "far": {link.b.node}, "both": {link.a.node, link.b.node}}[fault.end]
        assert bench.ports.down == wanted
    bench.injector.undo_all()
    assert bench.ports.down == set()
