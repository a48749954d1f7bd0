"""Faults put in and undone: journal first, overlapping as they should, also after errors and crashes."""

from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.chaos.injector import Injector
from testbed.chaos.journal import Journal, MemoryJournal
from testbed.chaos.kinds import KINDS
from testbed.chaos.kinds.kind import SHAPES, End
from testbed.chaos.kinds.options import OPTIONS
from testbed.chaos.kinds.watched import watched
from testbed.measure.record import Seen
from testbed.topology.errors import InputError, MissingError
from testbed.topology.port_stamps import PortStamps
from testbed.topology.targets import resolve
from tests.unit.chaos import scenarios
from tests.unit.chaos.fabric_in_memory import FabricInMemory

LINK = "p0t0-0:p0t1-1"
OTHER = "h0:p1t0-0"
CLOS = scenarios.small_lab()
HERE = [kind for kind in KINDS.values() if not kind.needs_netem]


class Bench:
    """An injector with its journal and fabric, and a clock that ticks with each look at it."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.fabric = FabricInMemory(journal)
        self.injector = Injector(CLOS, journal, self.fabric, clock=count(1).__next__)

    def ports_down(self) -> set[str]:
        ports = {port.ifindex: port.node for link in CLOS.links.values() for port in link.ends()}
        return {ports[int(key[1])] for key in self.fabric.now if key[0] == "down"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(Journal(tmp_path))


def example_of(kind_name: str) -> str:
    """A target in the small lab that a kind can happen to."""
    shape = KINDS[kind_name].takes
    small = {
        "host": "host h1",
        "t1": "switch p0t1-1",
        "nic-transceiver": "transceiver h1",
        "ev": "host h1 plane 1 t1 0",
    }
    return small.get(shape, SHAPES[shape][1])


@pytest.mark.parametrize(("end", "nodes"), [("near", {"p0t0-0"}), ("far", {"p0t1-1"}), ("both", {"p0t0-0", "p0t1-1"})])
def test_link_down_switches_off_the_ends_it_names(bench: Bench, end: End, nodes: set[str]) -> None:
    fault = bench.injector.put("link-down", LINK, end, by="run", due_ns=1, entry=3)
    assert bench.ports_down() == nodes
    assert fault.since_ns < fault.down_ns
    assert (fault.links, fault.damage, fault.entry, fault.due_ns) == ((LINK,), ((LINK, 0.0),), 3, 1)
    undone = bench.injector.undo(fault.number, due_ns=9)
    assert bench.ports_down() == set()
    assert undone.up_ns is not None and undone.until_ns is not None
    assert fault.down_ns < undone.up_ns < undone.until_ns
    assert bench.journal.faults() == [undone]


@pytest.mark.parametrize("kind", HERE, ids=lambda kind: kind.name)
def test_every_kind_changes_the_fabric_and_leaves_it_as_it_was(kind: object, bench: Bench) -> None:
    name = kind.name  # type: ignore[attr-defined]
    fault = bench.injector.put(name, example_of(name), by="hand")
    assert bench.fabric.now
    assert fault.links
    bench.injector.undo(fault.number)
    assert bench.fabric.now == {}


def test_a_port_that_two_faults_hold_comes_back_with_the_last(bench: Bench) -> None:
    first = bench.injector.put("link-down", LINK, "both", by="run")
    second = bench.injector.put("t1-power-loss", "switch p0t1-1", by="hand")
    assert len([act for act in bench.fabric.acts if act[1][0] == "down"]) == 3  # the link's port at the T1 only once
    bench.injector.undo(first.number)
    assert bench.ports_down() == {"p0t1-1"}
    bench.injector.undo(second.number)
    assert bench.ports_down() == set()


def test_settings_that_two_faults_hold_go_back_to_what_the_one_before_made_of_them(bench: Bench) -> None:
    key = ("change", CLOS.links[LINK].a.ifindex, "loss")
    bench.fabric.now[key] = 0.001  # somebody's own setting
    numbers = [bench.injector.put("loss", LINK, "near", {"loss": loss}, by="run").number for loss in (0.1, 0.2, 0.3)]
    assert bench.fabric.now[key] == 0.3
    bench.injector.undo(numbers[1])
    assert bench.fabric.now[key] == 0.3
    bench.injector.undo(numbers[2])
    assert bench.fabric.now[key] == 0.1
    bench.injector.undo(numbers[0])
    assert bench.fabric.now[key] == 0.001


def test_the_acts_of_a_kind_are_undone_in_reverse(bench: Bench) -> None:
    fault = bench.injector.put("t1-reboot", "switch p0t1-1", by="run")
    bench.injector.undo(fault.number)
    restored = [key for what, key in bench.fabric.acts if what == "restore"]
    assert restored[-1] == ("blank", "p0t1-1")  # ports first, tables afterwards


def test_undo_all_goes_backwards_and_leaves_what_others_put_in(bench: Bench) -> None:
    bench.injector.put("link-down", OTHER, "far", by="hand")
    bench.injector.put("link-down", LINK, "near", by="run")
    bench.injector.put("link-down", LINK, "far", by="run")
    undone = bench.injector.undo_all(by="run")
    assert [fault.number for fault in undone] == [3, 2]
    assert bench.ports_down() == {"p1t0-0"}
    assert [fault.by for fault in bench.injector.active()] == ["hand"]
    bench.injector.undo_all()
    assert bench.ports_down() == set()


class Killed(BaseException):
    """The process ends here."""


def test_another_process_undoes_what_a_killed_one_left_half_done(bench: Bench, tmp_path: Path) -> None:
    original = bench.fabric.do

    def killed_at_the_third(act: object) -> None:
        if len(bench.fabric.acts) == 2:
            raise Killed
        original(act)  # type: ignore[arg-type]

    bench.fabric.do = killed_at_the_third  # type: ignore[method-assign]
    bench.injector._undo = lambda *_: None  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(Killed):
        bench.injector.put("ecn-mark-all", LINK, by="run")
    assert len(bench.fabric.now) == 2
    other = Injector(CLOS, Journal(tmp_path), bench.fabric, clock=count(100).__next__)
    assert [fault.kind for fault in other.undo_all()] == ["ecn-mark-all"]
    assert bench.fabric.now == {}
    assert other.active() == []


def test_when_the_kernel_refuses_half_of_it_the_other_half_is_taken_back(bench: Bench) -> None:
    bench.fabric.broken.add("p0t1-1")
    with pytest.raises(OSError, match="refuses"):
        bench.injector.put("link-down", LINK, "both", by="run")
    bench.fabric.broken.clear()
    bench.injector.undo_all()
    assert bench.ports_down() == set()


@pytest.mark.parametrize(
    ("kind", "target", "error", "says"),
    [
        ("link-up", LINK, InputError, "no fault kind 'link-up'"),
        ("link-down", "p0t0-0:p0t1-9", InputError, "did you mean"),
        ("t1-reboot", "switch p0t0-0", InputError, "happens to T1 switches"),
        ("delay", LINK, MissingError, "netem"),
    ],
)
def test_what_is_no_fault_or_cannot_be_puts_nothing_into_the_journal(
    bench: Bench, kind: str, target: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        bench.injector.put(kind, target, by="hand")
    assert bench.journal.faults() == []


def test_undoing_what_is_not_in_says_what_is(bench: Bench) -> None:
    with pytest.raises(InputError, match="no fault 4 is active; none is"):
        bench.injector.undo(4)
    bench.injector.put("link-down", LINK, "near", by="hand")
    with pytest.raises(InputError, match="no fault 4 is active; active: 1"):
        bench.injector.undo(4)


def test_hosts_whose_agents_stand_still_are_known(bench: Bench) -> None:
    bench.injector.put("agent-pause", "host h2", by="hand")
    fault = bench.injector.put("agent-restart", "host h1", by="run")
    assert bench.injector.silent_hosts() == {"h1", "h2"}
    bench.injector.undo(fault.number)
    assert bench.injector.silent_hosts() == {"h2"}


puts = st.tuples(st.sampled_from([kind.name for kind in HERE]), st.integers(0, 3), st.sampled_from(["near", "far"]))
steps = st.lists(st.one_of(puts, st.integers(0, 20)), max_size=25)
LOSSES = [OPTIONS["loss"].parse(text) for text in ("1%", "2%", "3%", "4%")]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(steps)
def test_whatever_overlaps_the_latest_stands_and_nothing_is_left(todo: list[tuple[str, int, End] | int]) -> None:
    bench = Bench(MemoryJournal())
    made = {("change", CLOS.links[LINK].a.ifindex, "loss"): 0.5}
    bench.fabric.now = dict(made)
    for step in todo:
        active = bench.injector.active()
        if isinstance(step, tuple):
            name, number, end = step
            kind = KINDS[name]
            options = {"loss": LOSSES[number]} if "loss" in kind.defaults else {}
            bench.injector.put(name, example_of(name), end if kind.end else None, options, by="run")
        elif active:
            bench.injector.undo(active[step % len(active)].number)
        wanted = dict(made)
        for fault in bench.injector.active():
            kind = KINDS[fault.kind]
            case = kind.case(resolve(CLOS, fault.target, Random(0)), fault.end or None, dict(fault.options))  # type: ignore[arg-type]
            wanted |= {act.key: getattr(act, "value", True) for act in kind.acts(case)}
        assert bench.fabric.now == wanted
    bench.injector.undo_all()
    assert bench.fabric.now == made


def test_what_ports_noted_of_a_fault_is_in_the_journal_when_it_is_undone(bench: Bench, tmp_path: Path) -> None:
    link = CLOS.links[LINK]
    fault = bench.injector.put("loss-of-light", LINK, "near", by="hand")
    noted = PortStamps(3, 10, 20, 5, 30)
    bench.fabric.watched[link.a] = noted
    bench.injector.put("loss", LINK, "both", by="run")  # begins to watch the far end, and leaves the near one alone
    assert bench.fabric.watched == {link.a: noted, link.b: PortStamps()}
    undone = bench.injector.undo(fault.number)
    assert undone.seen == (Seen("p0t0-0>p0t1-1", True, noted),)
    assert Journal(tmp_path).faults()[0] == undone


@pytest.mark.parametrize(
    ("kind", "target", "dead", "alive"),
    [
        ("link-down", LINK, {"p0t0-0>p0t1-1", "p0t1-1>p0t0-0"}, set()),
        ("loss-of-light", LINK, {"p0t0-0>p0t1-1"}, set()),
        ("loss", LINK, set(), {"p0t0-0>p0t1-1", "p0t1-1>p0t0-0"}),
        ("ecn-off", LINK, set(), set()),
        ("not-forwarding", "switch p0t1-1", {"p0t1-1>p0t0-0", "p0t1-1>p0t0-1"}, set()),
    ],
)
def test_the_ports_that_see_a_kind(kind: str, target: str, dead: set[str], alive: set[str]) -> None:
    found = KINDS[kind]
    ports = watched(CLOS, found.acts(found.case(resolve(CLOS, target, Random(0)), None, {})))
    assert {one.name for one in ports if one.dead} == dead
    assert {one.name for one in ports if not one.dead} == alive


def test_what_is_due_later_is_prepared_and_then_done_when_it_is_due() -> None:
    now = [100]

    def wait(t_ns: int) -> None:
        assert journal.active(), "written down before the wait"
        waited.append((t_ns, dict(fabric.now)))
        now[0] = t_ns

    journal, waited = MemoryJournal(), list[tuple[int, dict[object, object]]]()
    fabric = FabricInMemory(journal)
    injector = Injector(CLOS, journal, fabric, clock=lambda: now[0], wait=wait)
    fault = injector.put("link-down", LINK, "near", by="run", due_ns=150)
    assert (fault.since_ns, waited) == (150, [(150, {})])
    undone = injector.undo(fault.number, due_ns=400)
    assert undone.up_ns == 400
    assert waited[1][1] and not fabric.now
