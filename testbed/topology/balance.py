"""How far the demands between the T0s of one plane can grow when each is balanced perfectly over its T1s.

A demand from T0 a to T0 b may use every T1 whose link from a and whose link to b both carry something, in any shares.
T1s whose links are all alike are one big T1, because an equal split among them is never worse. Where all T1s are
alike (the healthy plane), each T0's sums alone decide. A damaged plane is a linear program over (pair, kind of T1).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from testbed.topology.simplex import Simplex

Pair = tuple[int, int]  # (from T0, to T0) of one plane

_TINY = 1e-9


@dataclass(frozen=True)
class PlaneCapacity:
    """Rates in bps, by T0 and T1: `up[a][t]` from T0 a to T1 t, `down[b][t]` from T1 t to T0 b."""

    up: Sequence[Sequence[float]]
    down: Sequence[Sequence[float]]

    def connected(self, pair: Pair) -> bool:
        """Is there a T1 with life from the one T0 and to the other?"""
        return any(up and down for up, down in zip(self.up[pair[0]], self.down[pair[1]], strict=True))

    @cached_property
    def t1_kinds(self) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
        """(rate from each T0, rate to each T0) of all T1s of one kind together."""
        columns = zip(zip(*self.up, strict=True), zip(*self.down, strict=True), strict=True)
        kinds = Counter(columns)
        return [
            (tuple(rate * count for rate in up), tuple(rate * count for rate in down))
            for (up, down), count in kinds.items()
        ]


@dataclass(frozen=True, slots=True)
class Growth:
    """How far all growing demands came together, and which of them can grow no further."""

    level: float
    held: frozenset[Pair]


def grow(capacity: PlaneCapacity, fixed: Mapping[Pair, float], growing: Mapping[Pair, float]) -> Growth:
    """The largest level at which demands of fixed + level * growing fit into the plane.

    `fixed` in bps fits by itself; `growing` is the weight of each growing pair, > 0, and not empty. All are connected.
    """
    if len(capacity.t1_kinds) == 1:
        return _grow_alike(capacity, fixed, growing)
    return _grow_damaged(capacity, fixed, growing)


def _grow_alike(capacity: PlaneCapacity, fixed: Mapping[Pair, float], growing: Mapping[Pair, float]) -> Growth:
    levels: dict[Pair, float] = {}
    for end, rates in enumerate(capacity.t1_kinds[0]):
        taken: defaultdict[int, float] = defaultdict(float)
        weight: defaultdict[int, float] = defaultdict(float)
        for pair, demand in fixed.items():
            taken[pair[end]] += demand
        for pair, factor in growing.items():
            weight[pair[end]] += factor
        for pair in growing:
            t0 = pair[end]
            level = max(0.0, rates[t0] - taken[t0]) / weight[t0]
            levels[pair] = min(level, levels.get(pair, level))
    lowest = min(levels.values())
    return Growth(lowest, frozenset(pair for pair, level in levels.items() if level <= lowest * (1 + _TINY)))


def _grow_damaged(capacity: PlaneCapacity, fixed: Mapping[Pair, float], growing: Mapping[Pair, float]) -> Growth:
    """Variables: the share of the fixed demands that is placed, the level, then one per (pair, kind of T1).

    The first maximum places the fixed demands wholly; the second one, which keeps them placed, is the answer. Rates
    are divided by the largest one, so that the numbers are near 1.
    """
    placed, level = 0, 1
    unit_bps = max(rate for rates in capacity.t1_kinds for ends in rates for rate in ends)
    pairs = sorted({*fixed, *growing})
    demand_rows = [{placed: fixed.get(pair, 0.0) / unit_bps, level: growing.get(pair, 0.0)} for pair in pairs]
    link_rows: defaultdict[tuple[int, int, int], dict[int, float]] = defaultdict(dict)
    columns = 2
    for pair, demand_row in zip(pairs, demand_rows, strict=True):
        for kind, rates in enumerate(capacity.t1_kinds):
            if not all(rate[t0] for rate, t0 in zip(rates, pair, strict=True)):
                continue
            demand_row[columns] = -1.0
            for end, t0 in enumerate(pair):
                link_rows[end, t0, kind][columns] = 1.0
            columns += 1
    link_limits = [capacity.t1_kinds[kind][end][t0] / unit_bps for end, t0, kind in link_rows]
    program = Simplex(
        columns, [*demand_rows, {placed: 1.0}, *link_rows.values()], [*(0.0 for _ in pairs), 1.0, *link_limits]
    )
    program.maximise({placed: 1.0})
    program.hold(len(pairs))
    prices = program.maximise({level: 1.0})
    # A demand with a price is at the limit in every best balance; one without can still grow.
    held = frozenset(pair for pair, price in zip(pairs, prices, strict=False) if price > _TINY and pair in growing)
    return Growth(program.value(level) * unit_bps, held)
