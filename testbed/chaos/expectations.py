"""What a scenario may expect of a run: a table of names, each with its limit's unit and a pure function of the run.

A scenario writes `name: limit`, for the whole run, for the faults of an entry, or for the flows of a workload; what is
judged is a `View`. `measure` gives its value and the number of observations behind it; `at_most` or `at_least` says how
value and limit compare. A value of None means that there is nothing to measure (no fault cost a packet, for example):
then the expectation holds only where nothing is the best that can happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, Literal

from pydantic import Field, FiniteFloat

from testbed.measure import fairness, faults, phases, ports_view, series
from testbed.measure.faults import FaultCost
from testbed.measure.judgement import Judged, Unit
from testbed.measure.record import GOOD_STATES, QpFailed, Run
from testbed.topology.sizes import payload_share
from testbed.topology.units import DurationNs, Fraction

Count = int
Measured = tuple[float | None, int]  # (value in the limit's unit, observations)


@dataclass(frozen=True)
class View:
    """What is judged: a run (of all flows, or some), and those of its faults that are counted (None: all)."""

    run: Run
    entry: int | None = None  # of the scenario, that the faults come from

    @cached_property
    def costs(self) -> list[FaultCost]:
        """What the counted faults cost."""
        return [cost for cost in faults.costs(self.run) if self.entry in (None, cost.fault.entry)]


@dataclass(frozen=True, slots=True)
class Limit:
    """An expectation by its name with its limit (counts, fractions, ns): of the run, or of one fault or workload.

    `fault` and `workload` are the numbers of entries of the scenario.
    """

    name: str
    limit: float
    fault: int | None = None
    workload: int | None = None

    @property
    def place(self) -> str:
        """`faults[0]` or `workloads[1]`; empty for the run."""
        named = (("faults", self.fault), ("workloads", self.workload))
        return next((f"{section}[{number}]" for section, number in named if number is not None), "")


@dataclass(frozen=True, slots=True)
class Expectation:
    """One row of the table. `excused_by` says which fault of the machine makes a miss say nothing about the network.

    `slowness`: a busy CPU and late agents, and packets that the machine dropped. `drops`: only the latter. `of_faults`
    and `of_flows` say where else than of the run it can be asked.
    """

    name: str
    doc: str
    unit: Unit
    holds: Literal["at_most", "at_least"]
    measure: Callable[[View], Measured]
    none_is_good: bool = False
    excused_by: Literal["slowness", "drops", "nothing"] = "slowness"
    of_faults: bool = False
    of_flows: bool = True

    def field(self) -> tuple[Any, Any]:
        """(type, field) of its limit in the scenario's schema."""
        limit = {"count": Count, "fraction": Fraction, "duration": DurationNs, "round trips": FiniteFloat}[self.unit]
        return limit | None, Field(default=None, ge=0, description=self.doc)


def _bytes_wrong(view: View) -> Measured:
    totals, jobs = view.run.totals.values(), view.run.jobs
    wrong = sum(one.bytes_wrong for one in totals) + sum(one.bytes_wrong + one.messages_unexpected for one in jobs)
    return wrong, len(totals) + len(jobs)


def _undelivered(view: View) -> Measured:
    totals = view.run.totals.values()
    return sum(one.messages_sent - one.messages_delivered for one in totals), sum(one.messages_sent for one in totals)


def _qp_errors(view: View) -> Measured:
    return sum(isinstance(event, QpFailed) for event in view.run.events), 2 * len(view.run.flows)


def _interruptions(view: View) -> Measured:
    jobs = view.run.jobs
    return (sum(len(one.interruptions) for one in jobs) if jobs else None), len(jobs)


def _unfinished(view: View) -> Measured:
    jobs = [one for one in view.run.jobs if one.wanted is not None]
    missing = sum(one.wanted - one.operations for one in jobs if one.wanted is not None)
    return (missing if jobs else None), len(jobs)


def _min_busbw(view: View) -> Measured:
    spec = view.run.clos.spec
    line_rate_bps = spec.planes * spec.rates.host * payload_share()
    speeds = [0.0 if one.speed is None else one.speed.bus_bps / line_rate_bps for one in view.run.jobs]
    return min(speeds, default=None), len(speeds)


def _min_goodput(view: View) -> Measured:
    run = view.run
    flows = [flow.name for flow in run.flows]
    first_fault_ns = min((fault.since_ns for fault in run.faults), default=run.stop_ns)
    usual = series.mean_goodput(run, flows, run.measured_from_ns, first_fault_ns)
    bins = series.goodput_bins(run, flows, series.run_edges(run, run.measured_from_ns, run.stop_ns))
    return (min(bins) / usual if bins and usual > 0 else None), len(bins)


def _slowest(view: View) -> Measured:
    shares = fairness.shares(view.run)
    return min(shares, default=None), len(shares)


def _fairness(view: View) -> Measured:
    shares = fairness.shares(view.run)
    return fairness.jain(shares), len(shares)


def _of_oracle(view: View) -> list[float]:
    return [phase.of_oracle for phase in phases.phases(view.run) if phase.of_oracle is not None]


def _min_of_oracle(view: View) -> Measured:
    fractions = _of_oracle(view)
    return min(fractions, default=None), len(fractions)


def _off_oracle(view: View) -> Measured:
    fractions = _of_oracle(view)
    return max((abs(1 - fraction) for fraction in fractions), default=None), len(fractions)


def _longest(seconds: Iterable[float | None]) -> Measured:
    known = [one for one in seconds if one is not None]
    return max((one * 1e9 for one in known), default=None), len(known)


def _rerouted(view: View) -> Measured:
    return _longest(cost.rerouted_s for cost in view.costs)


def _recovered(view: View) -> Measured:
    return _longest(cost.recovered_s for cost in view.costs)


def _restored(view: View) -> Measured:
    if any(cost.evs_not_restored for cost in view.costs):
        return inf, len(view.costs)
    return _longest(cost.restored_s for cost in view.costs)


def _losses_per_qp(view: View) -> Measured:
    return max((cost.worst_flow_losses for cost in view.costs), default=None), len(view.costs)


def _losses(view: View) -> Measured:
    return max((cost.packets_lost for cost in view.costs), default=None), len(view.costs)


def _dip(view: View) -> Measured:
    dips = [cost.dip_fraction for cost in view.costs if cost.dip_fraction is not None]
    return max(dips, default=None), len(dips)


def _unused(view: View) -> Measured:
    views = [ports_view.of_fault(view.run, cost.fault) for cost in view.costs]
    found = [one.unused_round_trips for one in views if one.unused_round_trips is not None]
    return max(found, default=None), len(found)


def _healthy_retired(view: View) -> Measured:
    """EVs and planes of which no link was touched by any fault so far (a late loss may be of one that has ended)."""
    run = view.run
    retired = [
        (change.t_ns, run.path_of(change.flow, change.ev))
        for change in run.ev_changes()
        if change.new not in GOOD_STATES and change.old in GOOD_STATES
    ]
    retired += [(change.t_ns, frozenset({run.nic_link_of(change)})) for change in run.port_changes() if not change.up]
    healthy = sum(
        not any(fault.since_ns <= t_ns and not links.isdisjoint(fault.links) for fault in run.faults)
        for t_ns, links in retired
    )
    return healthy, len(retired)


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
            "interruptions",
            "times that a job lost a rank or a queue pair, at most",
            "count",
            "at_most",
            _interruptions,
        ),
        Expectation(
            "unfinished_operations",
            "operations of jobs that were asked for and not done when the run ended, at most",
            "count",
            "at_most",
            _unfinished,
        ),
        Expectation(
            "min_busbw_fraction",
            "bus bandwidth of each size of each job, of what a host can send (in payload), at least",
            "fraction",
            "at_least",
            _min_busbw,
        ),
        Expectation(
            "min_goodput_fraction",
            "goodput of all flows in every 200 ms bin, of the mean before the first fault, at least",
            "fraction",
            "at_least",
            _min_goodput,
        ),
        Expectation(
            "min_flow_of_offered",
            "mean goodput of the slowest flow, of what it offers (load full: the line rate, in payload), at least",
            "fraction",
            "at_least",
            _slowest,
        ),
        Expectation(
            "min_fairness",
            "Jain's index of the mean goodputs of the flows, at least",
            "fraction",
            "at_least",
            _fairness,
        ),
        Expectation(
            "timeouts",
            "packets that were sent again because nothing was heard of them, at most",
            "count",
            "at_most",
            lambda view: fairness.timeouts(view.run),
        ),
        Expectation(
            "min_goodput_of_oracle",
            "goodput of all flows between any two changes of the faults, of the capacity oracle's value, at least",
            "fraction",
            "at_least",
            _min_of_oracle,
            of_flows=False,  # what some flows can get depends on the others
        ),
        Expectation(
            "goodput_off_oracle",
            "difference of the goodput of all flows from the capacity oracle's value between any two changes, at most",
            "fraction",
            "at_most",
            _off_oracle,
            of_flows=False,
        ),
        Expectation(
            "recovery_within",
            "time from a fault to the end of the last 200 ms bin in which the flows that it touches have less than "
            "95 % of their goodput before it, at most",
            "duration",
            "at_most",
            _recovered,
            none_is_good=True,
            of_faults=True,
        ),
        Expectation(
            "max_dip",
            "largest part of the goodput of the flows that a fault touches that is missing in a 200 ms bin, at most",
            "fraction",
            "at_most",
            _dip,
            none_is_good=True,
            of_faults=True,
        ),
        Expectation(
            "rerouted_within",
            "time from the first packet that a fault cost to the last, at most",
            "duration",
            "at_most",
            _rerouted,
            none_is_good=True,
            of_faults=True,
        ),
        Expectation(
            "packets_lost_per_qp",
            "packets that one flow lost by one fault, at most",
            "count",
            "at_most",
            _losses_per_qp,
            none_is_good=True,
            excused_by="drops",  # a slow sender or receiver holds the window back: it sends less, and loses no more
            of_faults=True,
        ),
        Expectation(
            "packets_lost",
            "packets that all flows together lost by one fault, at most",
            "count",
            "at_most",
            _losses,
            none_is_good=True,
            excused_by="drops",
            of_faults=True,
        ),
        Expectation(
            "unused_within_round_trips",
            "time from the first packet of an EV that a dead port took to the last one that came to it, but for "
            "probes, by the ports' own stamps, in round trips before the fault, at most",
            "round trips",
            "at_most",
            _unused,
            none_is_good=True,
            of_faults=True,
        ),
        Expectation(
            "evs_restored_within",
            "time from the end of a fault until all EVs that it took are in use again, at most",
            "duration",
            "at_most",
            _restored,
            none_is_good=True,
            of_faults=True,
        ),
        Expectation(
            "healthy_evs_retired",
            "EVs taken out of use, and planes given up, though no fault had touched them, at most",
            "count",
            "at_most",
            _healthy_retired,
            excused_by="drops",  # late timers are the machine's, and a transport has to know that
        ),
    )
}


def judge(run: Run, limits: Iterable[Limit]) -> list[Judged]:
    """Each expectation against the run, in the order of the limits; those of a workload against its flows."""
    views: dict[tuple[int | None, int | None], View] = {}
    judged = []
    for one in limits:
        place = (one.fault, one.workload)
        if place not in views:
            views[place] = View(_narrowed(run, one.workload), one.fault)
        row = EXPECTATIONS[one.name]
        value, observations = row.measure(views[place])
        ok = _holds(row, value, one.limit)
        judged.append(Judged(one.name, row.doc, row.unit, one.limit, value, observations, ok, one.place))
    return judged


def _narrowed(run: Run, workload: int | None) -> Run:
    if workload is None:
        return run
    narrowed = run.of_flows([flow.name for flow in run.flows if flow.workload == workload])
    return replace(narrowed, jobs=[job for job in run.jobs if job.workload == workload])


def _holds(row: Expectation, value: float | None, limit: float) -> bool:
    if value is None:
        return row.none_is_good
    return value <= limit if row.holds == "at_most" else value >= limit
