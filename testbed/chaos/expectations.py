"""What a scenario may expect of a run: a table of names, each with its limit's unit and a pure function of the run.

A scenario writes `name: limit`. `measure` gives the run's value and the number of observations behind it; `at_most` or
`at_least` says how value and limit compare. A value of None means that the run has nothing to measure (no fault cost a
packet, for example): then the expectation holds only where nothing is the best that can happen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from testbed.measure import faults, phases, series
from testbed.measure.judgement import Judged, Unit
from testbed.measure.record import QpFailed, Run
from testbed.topology.units import DurationNs, Fraction

Count = int
Measured = tuple[float | None, int]  # (value in the limit's unit, observations)


@dataclass(frozen=True, slots=True)
class Expectation:
    """One row of the table. `excused_by` says which fault of the machine makes a miss say nothing about the network.

    `slowness`: a busy CPU and late agents, and packets that the machine dropped. `drops`: only the latter.
    """

    name: str
    doc: str
    unit: Unit
    holds: Literal["at_most", "at_least"]
    measure: Callable[[Run], Measured]
    none_is_good: bool = False
    excused_by: Literal["slowness", "drops", "nothing"] = "slowness"

    def field(self) -> tuple[Any, Any]:
        """(type, field) of its limit in the scenario's schema."""
        limit = {"count": Count, "fraction": Fraction, "duration": DurationNs}[self.unit]
        return limit | None, Field(default=None, ge=0, description=self.doc)


def _bytes_wrong(run: Run) -> Measured:
    return sum(totals.bytes_wrong for totals in run.totals.values()), len(run.totals)


def _undelivered(run: Run) -> Measured:
    missing = sum(totals.messages_sent - totals.messages_delivered for totals in run.totals.values())
    return missing, sum(totals.messages_sent for totals in run.totals.values())


def _qp_errors(run: Run) -> Measured:
    return sum(isinstance(event, QpFailed) for event in run.events), 2 * len(run.flows)


def _min_goodput(run: Run) -> Measured:
    flows = [flow.name for flow in run.flows]
    first_fault_ns = min((fault.since_ns for fault in run.faults), default=run.stop_ns)
    usual = series.mean_goodput(run, flows, run.measured_from_ns, first_fault_ns)
    bins = series.goodput_bins(run, flows, series.run_edges(run, run.measured_from_ns, run.stop_ns))
    return (min(bins) / usual if bins and usual > 0 else None), len(bins)


def _of_oracle(run: Run) -> list[float]:
    return [phase.of_oracle for phase in phases.phases(run) if phase.of_oracle is not None]


def _min_of_oracle(run: Run) -> Measured:
    fractions = _of_oracle(run)
    return min(fractions, default=None), len(fractions)


def _off_oracle(run: Run) -> Measured:
    fractions = _of_oracle(run)
    return max((abs(1 - fraction) for fraction in fractions), default=None), len(fractions)


def _rerouted(run: Run) -> Measured:
    times = [cost.rerouted_s for cost in faults.costs(run) if cost.rerouted_s is not None]
    return max((seconds * 1e9 for seconds in times), default=None), len(times)


def _losses_per_qp(run: Run) -> Measured:
    worst = [cost.worst_flow_losses for cost in faults.costs(run)]
    return max(worst, default=None), len(worst)


def _restored(run: Run) -> Measured:
    costs = faults.costs(run)
    if any(cost.evs_not_restored for cost in costs):
        return float("inf"), len(costs)
    times = [cost.restored_s for cost in costs if cost.restored_s is not None]
    return max((seconds * 1e9 for seconds in times), default=None), len(times)


EXPECTATIONS = {
    row.name: row
    for row in (
        Expectation(
            "bytes_wrong",
            "delivered bytes that differ from what was sent, at most",
            "count",
            "at_most",
            _bytes_wrong,
            excused_by="nothing",
        ),
        Expectation("qp_errors", "queue pairs that went into error, at most", "count", "at_most", _qp_errors),
        Expectation(
            "undelivered_messages",
            "messages sent but not delivered after the drain, at most",
            "count",
            "at_most",
            _undelivered,
        ),
        Expectation(
            "min_goodput_fraction",
            "goodput of all flows in every 200 ms bin, of the mean before the first fault, at least",
            "fraction",
            "at_least",
            _min_goodput,
        ),
        Expectation(
            "min_goodput_of_oracle",
            "goodput of all flows between any two changes of the faults, of the capacity oracle's value, at least",
            "fraction",
            "at_least",
            _min_of_oracle,
        ),
        Expectation(
            "goodput_off_oracle",
            "difference of the goodput of all flows from the capacity oracle's value between any two changes, at most",
            "fraction",
            "at_most",
            _off_oracle,
        ),
        Expectation(
            "rerouted_within",
            "time from the first packet that a fault cost to the last, at most",
            "duration",
            "at_most",
            _rerouted,
            none_is_good=True,
        ),
        Expectation(
            "packets_lost_per_qp",
            "packets that one flow lost by one fault, at most",
            "count",
            "at_most",
            _losses_per_qp,
            none_is_good=True,
            excused_by="drops",  # a slow sender or receiver holds the window back: it sends less, and loses no more
        ),
        Expectation(
            "evs_restored_within",
            "time from the end of a fault until all EVs that it took are in use again, at most",
            "duration",
            "at_most",
            _restored,
            none_is_good=True,
        ),
    )
}


def judge(run: Run, limits: dict[str, float]) -> list[Judged]:
    """Each expectation with its limit (counts, fractions, ns) against the run, in the scenario's order."""
    judged = []
    for name, limit in limits.items():
        row = EXPECTATIONS[name]
        value, observations = row.measure(run)
        ok = _holds(row, value, limit)
        judged.append(Judged(name, row.doc, row.unit, limit, value, observations, ok))
    return judged


def _holds(row: Expectation, value: float | None, limit: float) -> bool:
    if value is None:
        return row.none_is_good
    return value <= limit if row.holds == "at_most" else value >= limit
