"""Faults that overlap: which act stands when several hold the same thing of the fabric.

The latest one in stands. When it ends, the one before it stands again; when the last one ends, what was there before
the first one is restored. So the order in which faults end does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from testbed.chaos.kinds.acts import Act, Key


def standing(faults: Iterable[Sequence[Act]]) -> dict[Key, Act]:
    """Of the acts of faults, in the order in which they were put in: the one that stands for each key."""
    return {act.key: act for acts in faults for act in acts}


def to_do(acts: Sequence[Act], others: Iterable[Sequence[Act]]) -> list[Act]:
    """What has to be done to put a fault in on top of the others: not again what stands already."""
    before = standing(others)
    return [act for act in acts if before.get(act.key) != act]


def to_undo(acts: Sequence[Act], others: Iterable[Sequence[Act]]) -> list[tuple[int, Act, Act | None]]:
    """How to undo a fault, in order: (position of the act, the act, what stands instead), None: restore what was."""
    after = standing(others)
    undoing = [(position, act, after.get(act.key)) for position, act in enumerate(acts)]
    return [step for step in reversed(undoing) if step[1] != step[2]]
