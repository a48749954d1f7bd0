"""Stretches of a run in which the set of faults stood still, each with what flowed and what the capacity oracle allows.

The oracle (`testbed.topology.capacity`) knows only the model of the fabric; it is what a perfect transport could carry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from math import inf

from testbed.measure import series
from testbed.measure.record import Fault, Run
from testbed.topology.capacity import carried
from testbed.topology.sizes import payload_share

Damage = frozenset[tuple[str, float]]  # (link `p0t0-0:p0t1-1` or direction `p0t0-0>p0t1-1`, what is left of it)

SETTLE_NS = 300_000_000  # after each change, traffic has so long to find its new level before it is held to the oracle


@dataclass(frozen=True, slots=True)
class Phase:
    """Between two changes of the set of faults. Goodput is the flows' sum, from SETTLE_NS after the start on.

    `goodput_bps` is None when the phase is too short to say: less than one bin is left after settling.
    """

    start_ns: int
    stop_ns: int
    damage: Damage
    goodput_bps: float | None
    oracle_bps: float

    @property
    def down(self) -> list[str]:
        """The links, and single directions of links, that carry nothing."""
        return sorted(name for name, left in self.damage if left == 0)

    @property
    def slow(self) -> dict[str, float]:
        """The links, and directions, that carry less than usual: what is left of each."""
        return {name: left for name, left in sorted(self.damage) if left > 0}

    @property
    def of_oracle(self) -> float | None:
        """Goodput as a fraction of the oracle's value."""
        return None if self.goodput_bps is None or not self.oracle_bps else self.goodput_bps / self.oracle_bps


def phases(run: Run) -> list[Phase]:
    """The measured time, cut at each change of the set of faults."""
    oracle = cache(partial(oracle_bps, run))
    return [_phase(run, start, stop, oracle) for start, stop in pairwise(_edges(run))]


def during(run: Run, fault: Fault, found: list[Phase]) -> Phase | None:
    """The longest measured stretch while a fault was in; None when all were too short to say."""
    until_ns = run.stop_ns if fault.until_ns is None else fault.until_ns
    inside = [
        phase
        for phase in found
        if phase.goodput_bps is not None and fault.since_ns <= phase.start_ns and phase.stop_ns <= until_ns
    ]
    return max(inside, key=lambda phase: phase.stop_ns - phase.start_ns, default=None)


def active(run: Run, t_ns: int) -> Damage:
    """What the faults of a time leave of links, and of directions of links."""
    left: dict[str, float] = {}
    for fault in run.faults:
        if fault.since_ns <= t_ns and (fault.until_ns is None or t_ns < fault.until_ns):
            for name, fraction in fault.damage:
                left[name] = min(fraction, left.get(name, 1.0))
    return frozenset(left.items())


def oracle_bps(run: Run, damage: Damage) -> float:
    """What the fabric could carry of the offered traffic with this damage: payload, sum of all flows."""
    offered = {(flow.src, flow.dst): inf if flow.full else flow.offered_bps / payload_share() for flow in run.flows}
    return carried(run.clos, offered, dict(damage)).total_payload_bps


def _edges(run: Run) -> list[int]:
    times = {run.measured_from_ns, run.stop_ns}
    for fault in run.faults:
        times.update(t_ns for t_ns in (fault.since_ns, fault.until_ns) if t_ns is not None)
    return sorted(t_ns for t_ns in times if run.measured_from_ns <= t_ns <= run.stop_ns)


def _phase(run: Run, start_ns: int, stop_ns: int, oracle: Callable[[Damage], float]) -> Phase:
    damage = active(run, start_ns)
    flows = [flow.name for flow in run.flows]
    settled_ns = start_ns + run.of_lab(SETTLE_NS)
    long_enough = stop_ns - settled_ns >= run.of_lab(series.BIN_NS)
    goodput_bps = series.mean_goodput(run, flows, settled_ns, stop_ns) if long_enough else None
    return Phase(start_ns, stop_ns, damage, goodput_bps, oracle(damage))
