"""Faults repeated, drawn and ordered; and those found that would have no effect or contradict each other."""

from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest

from testbed.chaos import timeline
from testbed.chaos.timeline import Due
from tests.unit.chaos import scenarios

SECOND = 1_000_000_000
LAB = scenarios.small_lab()


def dues(folder: Path, *changes: tuple[str, str], seed: int = 1) -> list[Due]:
    return timeline.unroll(scenarios.load(folder, *changes), LAB, seed)


def with_fault(text: str) -> tuple[str, str]:
    """One more fault, given as a YAML mapping."""
    return "expect:", f"  - {text}\nexpect:"


def test_a_fault_is_due_once(tmp_path: Path) -> None:
    (due,) = dues(tmp_path)
    assert (due.at_ns, due.until_ns, due.case.end) == (3 * SECOND, 4 * SECOND, "far")
    assert [act.key for act in due.acts] == [("down", LAB.links["p0t0-0:p0t1-1"].b.ifindex)]


def test_a_flap_is_due_again_and_again(tmp_path: Path) -> None:
    found = dues(tmp_path, ("for: 1 s", "for: 500 ms\n    every: 2 s\n    count: 3"))
    assert [due.at_ns for due in found] == [3 * SECOND, 5 * SECOND, 7 * SECOND]
    assert all(due.until_ns == due.at_ns + SECOND // 2 for due in found)


def test_without_an_end_it_lasts_to_the_end_of_the_run(tmp_path: Path) -> None:
    (due,) = dues(tmp_path, ("    for: 1 s\n", ""))
    assert due.until_ns is None


def test_a_kind_can_say_how_long_it_lasts_and_faster_time_shortens_that(tmp_path: Path) -> None:
    scenario = scenarios.load(tmp_path, ("link-down", "link-flap"), ("    for: 1 s\n", ""))
    for speedup in (1, 1000):
        (due,) = timeline.unroll(scenario, LAB, 1, speedup)
        assert due.until_ns == due.at_ns + 100_000_000 // speedup


def test_entries_are_merged_by_time(tmp_path: Path) -> None:
    more = '{kind: link-down, target: "h0:p0t0-0", at: 2 s, for: 1 s, every: 3 s, count: 2}'
    found = dues(tmp_path, with_fault(more))
    assert [(due.at_ns // SECOND, due.entry) for due in found] == [(2, 1), (3, 0), (5, 1)]


def test_jitter_moves_each_turn_by_itself_and_no_further_than_it_says(tmp_path: Path) -> None:
    turns = ("for: 1 s", "for: 100 ms\n    every: 500 ms\n    count: 10\n    jitter: 150 ms")
    offsets = [due.at_ns - (3 * SECOND + turn * SECOND // 2) for turn, due in enumerate(dues(tmp_path, turns))]
    assert len(set(offsets)) == 10
    assert all(abs(offset) <= 150_000_000 for offset in offsets)
    assert min(offsets) < 0 < max(offsets)


PICK = ("target: p0t0-0:p0t1-1", "target: links tier=t0-t1 plane=1 pick=2")


def test_each_turn_picks_anew_among_what_fits(tmp_path: Path) -> None:
    found = dues(tmp_path, PICK, ("for: 1 s", "for: 100 ms\n    every: 500 ms\n    count: 12"))
    picked = [tuple(link.name for link in due.case.target.links) for due in found]
    assert len(set(picked)) > 1
    assert all(len(names) == 2 and all(name.startswith("p1t0-") for name in names) for names in picked)


RANDOM = ("    at: 3 s\n    for: 1 s\n", "    mtbf: 500 ms\n    mttr: 100 ms\n")


def test_random_faults_take_turns_with_their_repairs_on_each_link_by_itself(tmp_path: Path) -> None:
    found = dues(tmp_path, ("target: p0t0-0:p0t1-1", "target: links tier=t0-t1"), ("10 s", "100 s"), RANDOM)
    by_link: dict[str, list[Due]] = {}
    for due in found:
        by_link.setdefault(due.case.target.text, []).append(due)
    assert len(by_link) == 8
    for of_link in by_link.values():
        assert all(one.until_ns is not None and one.until_ns < later.at_ns for one, later in pairwise(of_link))
    lasted = [due.until_ns - due.at_ns for due in found if due.until_ns is not None]
    # about 1300 draws of an exponential: the mean is off by 3 % or so
    assert mean(lasted) == pytest.approx(100_000_000, rel=0.15)
    assert len(found) == pytest.approx(8 * 100 / 0.6, rel=0.15)


@pytest.mark.parametrize("changes", [(PICK, ("for: 1 s", "for: 100 ms\n    every: 500 ms\n    count: 12")), (RANDOM,)])
def test_the_seed_decides_and_decides_alike(tmp_path: Path, changes: tuple[tuple[str, str], ...]) -> None:
    same, again, other = (dues(tmp_path, *changes, seed=seed) for seed in (5, 5, 6))
    assert same == again
    assert same != other


def test_another_entry_leaves_the_draws_of_this_one_alone(tmp_path: Path) -> None:
    alone = dues(tmp_path, RANDOM)
    more = '{kind: loss, target: "links tier=nic-t0 pick=1", mtbf: 1 s, mttr: 10 ms}'
    both = dues(tmp_path, RANDOM, with_fault(more))
    assert [due for due in both if due.entry == 0] == alone
    assert len(both) > len(alone)


def test_the_same_end_of_a_link_twice_is_a_clash_and_the_other_end_is_none(tmp_path: Path) -> None:
    def both(end: str, at: str) -> list[Due]:
        return dues(tmp_path, with_fault(f'{{kind: link-down, target: "p0t0-0:p0t1-1", end: {end}, at: {at}}}'))

    assert timeline.clash(both("near", "3500 ms")) is None
    assert timeline.clash(both("far", "4 s")) is None
    clash = timeline.clash(both("far", "3500 ms"))
    assert clash is not None
    assert [due.entry for due in clash[:2]] == [0, 1]


def test_other_kinds_on_the_same_port_are_no_clash_unless_they_differ_on_a_setting(tmp_path: Path) -> None:
    def both(first: str, second: str) -> list[Due]:
        return dues(tmp_path, with_fault(first), with_fault(second))

    hole = '{kind: black-hole, target: "h0:p0t0-0", at: 2 s}'
    assert timeline.clash(both(hole, '{kind: loss, target: "h0:p0t0-0", at: 2 s}')) is None
    assert timeline.clash(both(hole, '{kind: loss-of-light, target: "h0:p0t0-0", at: 2 s}')) is None
    clash = timeline.clash(both(hole, '{kind: black-hole, target: "host h0", what: data, at: 3 s}'))
    assert clash is not None and clash[2] is not None
    assert (clash[2].setting, clash[2].value) == ("black_hole", "data")


def test_a_short_fault_of_the_same_value_does_not_hide_the_long_one_below(tmp_path: Path) -> None:
    found = dues(
        tmp_path,
        with_fault('{kind: loss, target: "h0:p0t0-0", at: 1 s}'),
        with_fault('{kind: loss, target: "links h0:p0t0-0 h1:p0t0-0", at: 2 s, for: 100 ms}'),
        with_fault('{kind: loss, target: "host h0", loss: 2%, at: 3 s}'),
    )
    clash = timeline.clash(found)
    assert clash is not None
    assert [due.at_ns // SECOND for due in clash[:2]] == [1, 3]
