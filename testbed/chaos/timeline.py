"""The faults of a scenario one by one: `every` and `count` unrolled, in the order in which they are due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.chaos.kinds.kind import End
from testbed.chaos.scenario import FaultEntry, Scenario


@dataclass(frozen=True, slots=True)
class Due:
    """One fault to put in `at_ns` after the traffic's start, and to undo at `until_ns` (None: when the run ends).

    `entry` is the number of the scenario's entry that it comes from.
    """

    at_ns: int
    until_ns: int | None
    kind: str
    target: str
    end: End
    entry: int


def unroll(scenario: Scenario) -> list[Due]:
    """All faults of a scenario, by time."""
    return sorted(
        (due for number, entry in enumerate(scenario.faults) for due in _unroll_entry(number, entry)),
        key=lambda due: due.at_ns,
    )


def overlapping(dues: Iterable[Due]) -> tuple[Due, Due] | None:
    """Two faults of one kind that hold the same end of a target at once: one of them would be without effect."""
    last: dict[tuple[str, str, End], Due] = {}
    for due in dues:
        key = (due.kind, due.target, due.end)
        before = last.get(key)
        if before is not None and (before.until_ns is None or due.at_ns < before.until_ns):
            return before, due
        last[key] = due
    return None


def _unroll_entry(number: int, entry: FaultEntry) -> list[Due]:
    period_ns = entry.every or 0
    return [
        Due(
            at_ns=entry.at + period_ns * turn,
            until_ns=None if entry.for_ is None else entry.at + period_ns * turn + entry.for_,
            kind=entry.kind,
            target=entry.target,
            end=entry.end,
            entry=number,
        )
        for turn in range(entry.count)
    ]
