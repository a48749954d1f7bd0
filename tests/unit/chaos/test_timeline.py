"""`every` and `count` unrolled, and faults that would have no effect found."""

from pathlib import Path

from testbed.chaos import timeline
from tests.unit.chaos import scenarios

SECOND = 1_000_000_000


def test_a_fault_is_due_once(tmp_path: Path) -> None:
    (due,) = timeline.unroll(scenarios.load(tmp_path))
    assert (due.at_ns, due.until_ns, due.end) == (3 * SECOND, 4 * SECOND, "far")


def test_a_flap_is_due_again_and_again(tmp_path: Path) -> None:
    dues = timeline.unroll(scenarios.load(tmp_path, ("for: 1 s", "for: 500 ms\n    every: 2 s\n    count: 3")))
    assert [due.at_ns for due in dues] == [3 * SECOND, 5 * SECOND, 7 * SECOND]
    assert all(due.until_ns == due.at_ns + SECOND // 2 for due in dues)


def test_without_an_end_it_lasts_to_the_end_of_the_run(tmp_path: Path) -> None:
    (due,) = timeline.unroll(scenarios.load(tmp_path, ("    for: 1 s\n", "")))
    assert due.until_ns is None


def test_entries_are_merged_by_time(tmp_path: Path) -> None:
    more = '  - {kind: link-down, target: "h0:p0t0-0", at: 2 s, for: 1 s, every: 3 s, count: 2}\nexpect:'
    dues = timeline.unroll(scenarios.load(tmp_path, ("expect:", more)))
    assert [(due.at_ns // SECOND, due.entry) for due in dues] == [(2, 1), (3, 0), (5, 1)]


def test_the_other_end_of_a_link_is_no_overlap_and_the_same_one_is(tmp_path: Path) -> None:
    def both(end: str, at: str) -> list[timeline.Due]:
        more = f'  - {{kind: link-down, target: "p0t0-0:p0t1-1", end: {end}, at: {at}}}\nexpect:'
        return timeline.unroll(scenarios.load(tmp_path, ("expect:", more)))

    assert timeline.overlapping(both("near", "3500 ms")) is None
    assert timeline.overlapping(both("far", "4 s")) is None
    clash = timeline.overlapping(both("far", "3500 ms"))
    assert clash is not None
    assert [due.entry for due in clash] == [0, 1]
