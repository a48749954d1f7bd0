"""The faults of a scenario one by one, as a lab and a seed make them: repeated, drawn, and in order of time.

The same scenario, lab and seed give the same list to the last digit. Each entry of a scenario has a stream of random
numbers of its own, so that a change to one entry leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

from testbed.chaos.kinds import find_kind
from testbed.chaos.kinds.acts import Act, Change, Key
from testbed.chaos.kinds.kind import Case, Kind
from testbed.chaos.kinds.options import OPTIONS, Values
from testbed.chaos.scenario import FaultEntry, Scenario
from testbed.topology.clos import Clos
from testbed.topology.targets import Target, resolve


@dataclass(frozen=True)
class Due:
    """One fault to put in `at_ns` after the traffic's start, and to undo at `until_ns` (None: when the run ends).

    `entry` is the number of the scenario's entry that it comes from.
    """

    at_ns: int
    until_ns: int | None
    kind: str
    case: Case
    acts: tuple[Act, ...]
    entry: int


def unroll(scenario: Scenario, clos: Clos, seed: int, speedup: float = 1.0) -> list[Due]:
    """All faults of a scenario on a lab, by time. Raises InputError for what `check` would refuse.

    Where time runs faster than the lab's, the scenario's times are divided by `speedup` already; those of kinds are
    divided here.
    """
    dues: list[Due] = []
    for number, entry in enumerate(scenario.faults):
        lasts_ns = entry.lasts_ns
        if entry.for_ is None and lasts_ns is not None:
            lasts_ns = round(lasts_ns / speedup)
        options = {**_sped_up(find_kind(entry.kind), speedup), **entry.options}
        dues += _of_entry(scenario, number, lasts_ns, options, clos, Random(f"{seed} fault {number}"))
    return sorted(dues, key=lambda due: due.at_ns)


def clash(dues: Iterable[Due]) -> tuple[Due, Due, Change | None] | None:
    """Two faults that contradict each other, or of which one would be without effect; None when there are none.

    The third part is the setting that the second gives another value to; without one they are the same fault twice.
    """
    last: dict[tuple[str, str, str], Due] = {}
    changes: dict[Key, tuple[Due, Act]] = {}
    for due in dues:
        same = (due.kind, due.case.target.text, due.case.end)
        if (before := last.get(same)) is not None and _lasts_at(before, due.at_ns):
            return before, due, None
        last[same] = due
        for act in due.acts:
            if not isinstance(act, Change):
                continue
            earlier = changes.get(act.key)
            if earlier is not None and _lasts_at(earlier[0], due.at_ns) and earlier[1] != act:
                return earlier[0], due, act
            if earlier is None or _end(due) >= _end(earlier[0]):
                changes[act.key] = due, act
    return None


def _lasts_at(due: Due, t_ns: int) -> bool:
    return due.until_ns is None or t_ns < due.until_ns


def _end(due: Due) -> float:
    return inf if due.until_ns is None else due.until_ns


def _sped_up(kind: Kind, speedup: float) -> dict[str, Any]:
    """The defaults of a kind's options, where time runs faster."""
    return {
        name: round(value / speedup) if OPTIONS[name].is_duration else value for name, value in kind.defaults.items()
    }


def _of_entry(
    scenario: Scenario, number: int, lasts_ns: int | None, options: Values, clos: Clos, rng: Random
) -> Iterator[Due]:
    entry: FaultEntry = scenario.faults[number]
    kind = find_kind(entry.kind)
    if entry.mtbf is not None:
        yield from _random(scenario, number, options, kind, clos, rng)
        return
    for turn in range(entry.count):
        target = resolve(clos, entry.target, rng)
        at_ns = entry.at + (entry.every or 0) * turn
        if entry.jitter:
            at_ns = max(0, at_ns + rng.randint(-entry.jitter, entry.jitter))
        yield _due(at_ns, None if lasts_ns is None else at_ns + lasts_ns, kind, target, entry, options, number)


def _random(scenario: Scenario, number: int, options: Values, kind: Kind, clos: Clos, rng: Random) -> Iterator[Due]:
    """Each link, switch or host of the target fails and is repaired on its own; times are exponential."""
    entry: FaultEntry = scenario.faults[number]
    assert entry.mtbf and entry.mttr
    for target in parts(resolve(clos, entry.target, rng), clos):
        t_ns = entry.at
        while (t_ns := t_ns + _exponential_ns(rng, entry.mtbf)) < scenario.duration:
            until_ns = t_ns + _exponential_ns(rng, entry.mttr)
            yield _due(t_ns, until_ns, kind, target, entry, options, number)
            t_ns = until_ns


def parts(target: Target, clos: Clos) -> Sequence[Target]:
    """What of a target fails on its own when faults come at random."""
    names: list[str] = []
    if "switch" in target.shapes:
        names = [f"switch {node.name}" for node in target.nodes]
    elif target.text.startswith("links "):
        names = [link.name for link in target.links]
    return [resolve(clos, name, Random(0)) for name in names] or [target]


def _exponential_ns(rng: Random, mean_ns: int) -> int:
    return max(1, round(rng.expovariate(1 / mean_ns)))


def _due(
    at_ns: int, until_ns: int | None, kind: Kind, target: Target, entry: FaultEntry, options: Values, number: int
) -> Due:
    case = kind.case(target, entry.end, options)
    return Due(at_ns, until_ns, kind.name, case, kind.acts(case), number)
