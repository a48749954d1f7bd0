"""Holds a scenario against the lab it is to run on, before anything is started: names, times, pairs of hosts."""

from __future__ import annotations

from random import Random
from typing import Any

from agents.workloads import matrix
from testbed.chaos import jobs, timeline
from testbed.chaos.kinds import find_kind
from testbed.chaos.kinds.kind import End, Kind
from testbed.chaos.scenario import MAX_FAULTS, FaultEntry, Scenario
from testbed.chaos.workload import JobWorkload, Workload
from testbed.measure.faults import DIP_LEAD_NS
from testbed.measure.record import Flow
from testbed.topology.clos import Clos, host_name
from testbed.topology.errors import InputError
from testbed.topology.select import find_host
from testbed.topology.sizes import payload_share
from testbed.topology.targets import Target, resolve
from testbed.topology.units import format_duration
from testbed.topology.yamlfile import Where

_COMPARED = ("max_dip", "recovery_within")


def check(scenario: Scenario, clos: Clos, *, compared: bool = False) -> None:
    """Raises InputError with all that does not fit, each with its line and the nearest right thing.

    `compared`: it is to run over several transports, and may set something about each.
    """
    errors = [
        *_transport_errors(scenario, clos, compared),
        *_health_errors(scenario, clos),
        *_workload_errors(scenario, clos),
        *_fault_errors(scenario, clos),
        *_comparison_errors(scenario),
        *_pair_errors(scenario, clos),
    ]
    if errors:
        raise InputError.several(errors)


def flows(scenario: Scenario, clos: Clos, seed: int | None = None) -> list[tuple[Workload | JobWorkload, Flow]]:
    """The flows of a checked scenario with the workload that each belongs to. The offered rate is payload.

    What ranks of a job send each other is a flow as well, as fast as it goes. `seed` replaces the scenario's.
    """
    seed = scenario.seed if seed is None else seed
    line_rate_bps = clos.spec.planes * clos.spec.rates.host * payload_share()
    found = []
    for number, workload in enumerate(scenario.workloads):
        load = "full" if isinstance(workload, JobWorkload) else workload.load
        offered_bps = line_rate_bps if load == "full" else load * line_rate_bps
        found += [
            (workload, Flow(src, dst, offered_bps, load == "full", number, workload.qps))
            for src, dst in pairs(workload, clos, seed)
        ]
    return found


def pairs(workload: Workload | JobWorkload, clos: Clos, seed: int) -> list[tuple[str, str]]:
    """(sender, receiver) of each flow. Raises InputError when the lab has too few hosts."""
    hosts, rack = clos.spec.hosts, clos.spec.hosts_per_t0
    if isinstance(workload, JobWorkload):
        return jobs.pairs(workload, [host_name(host) for host in range(hosts)])
    try:
        match workload.pairs:
            case "across":
                numbers = [(host, (host + rack) % hosts) for host in range(hosts)]
            case "permutation":
                numbers = matrix.permutation(hosts, Random(seed))
            case "incast" | "victim":
                assert workload.target is not None and workload.senders is not None
                racks = [range(first, first + rack) for first in range(0, hosts, rack)]
                crowd, victim = matrix.incast(racks, find_host(clos, workload.target).index, workload.senders)
                numbers = crowd if workload.pairs == "incast" else [victim]
            case _:
                return list(workload.pairs)
    except ValueError as error:
        raise InputError(str(error), "take a larger lab, or fewer senders") from error
    return [(host_name(src), host_name(dst)) for src, dst in numbers]


def _error(scenario: Scenario, where: Where, what: str, hint: str = "") -> InputError:
    document = scenario._document
    return InputError(what, hint) if document is None else document.error(where, what, hint)


def _transport_errors(scenario: Scenario, clos: Clos, compared: bool) -> list[InputError]:
    spec = clos.spec
    written = () if compared else scenario.transport.model_fields_set
    problems = scenario.transport_of(spec).problems(spec.planes * spec.t1s_per_plane, written)
    return [_error(scenario, problem.where, problem.what, problem.hint) for problem in problems]


def _health_errors(scenario: Scenario, clos: Clos) -> list[InputError]:
    problems = scenario.health.problems(clos.spec, scenario.duration)
    return [_error(scenario, problem.where, problem.what, problem.hint) for problem in problems]


def _workload_errors(scenario: Scenario, clos: Clos) -> list[InputError]:
    there = clos.spec.t1s_per_plane
    errors = []
    for number, workload in enumerate(scenario.workloads):
        if isinstance(workload, Workload) and workload.t1s is not None and workload.t1s > there:
            what = f"{workload.t1s} T1s of each plane; the lab has {there}"
            errors.append(_error(scenario, ("workloads", number, "t1s"), what, f"write {there} or less"))
    return errors


def _fault_errors(scenario: Scenario, clos: Clos) -> list[InputError]:
    errors = []
    for number, entry in enumerate(scenario.faults):
        where: Where = ("faults", number)
        try:
            kind = find_kind(entry.kind)
        except InputError as error:
            errors.append(_error(scenario, (*where, "kind"), error.what, error.hint))
            kind = None
        try:
            target = resolve(clos, entry.target, Random(0))
            if kind is not None:
                kind.case(target, None, {})  # is it one that the kind can happen to?
                kind.refuse_hashed(target, clos)
                kind.refuse_of_mrc(scenario.transport_of(clos.spec).kind)
        except InputError as error:
            errors.append(_error(scenario, (*where, "target"), error.what, error.hint))
        else:
            if kind is not None:
                errors += _case_errors(scenario, where, kind, entry, target)
            errors += _random_errors(scenario, where, entry, target, clos)
        if entry.at >= scenario.duration:
            at, end = format_duration(entry.at), format_duration(scenario.duration)
            errors.append(_error(scenario, (*where, "at"), f"the fault would begin at {at}, but the run ends at {end}"))
    return errors or _timeline_errors(scenario, clos)


def _case_errors(scenario: Scenario, where: Where, kind: Kind, entry: FaultEntry, target: Target) -> list[InputError]:
    """Options and end, one by one, so that each error has its line."""
    tries: list[tuple[str, End | None, dict[str, Any]]] = [
        *((name, None, {name: value}) for name, value in entry.options.items()),
        ("end", entry.end, {}),
    ]
    errors = []
    for name, end, options in tries:
        try:
            kind.case(target, end, options)
        except InputError as error:
            errors.append(_error(scenario, (*where, name), error.what, error.hint))
    return errors


def _random_errors(scenario: Scenario, where: Where, entry: FaultEntry, target: Target, clos: Clos) -> list[InputError]:
    """More faults by chance than an entry may have, before they are drawn."""
    if entry.mtbf is None or entry.mttr is None:
        return []
    expected = len(timeline.parts(target, clos)) * (scenario.duration - entry.at) / (entry.mtbf + entry.mttr)
    if expected <= MAX_FAULTS:
        return []
    what = f"that makes about {expected:.3g} faults; an entry may have {MAX_FAULTS:,}"
    return [_error(scenario, (*where, "mtbf"), what, "make mtbf longer")]


def _comparison_errors(scenario: Scenario) -> list[InputError]:
    """Limits that compare with the time before a fault, where there is none: nothing could miss them."""
    begins_ns = scenario.warmup + DIP_LEAD_NS
    early = [entry.mtbf is None and entry.count == 1 and entry.at <= begins_ns for entry in scenario.faults]
    errors = []
    for limit in scenario.limits:
        concerned = early if limit.fault is None else [early[limit.fault]]
        if limit.name in _COMPARED and concerned and all(concerned):
            what = f"{limit.name} compares with the goodput before the fault, and all of that is warm-up"
            hint = f"let it begin later than {format_duration(begins_ns)}"
            errors.append(_error(scenario, ("faults", limit.fault or 0, "at"), what, hint))
    return errors


def _timeline_errors(scenario: Scenario, clos: Clos) -> list[InputError]:
    errors = []
    dues = timeline.unroll(scenario, clos, scenario.seed)
    late = next((due for due in dues if due.at_ns >= scenario.duration), None)
    if late is not None:
        at, end = format_duration(late.at_ns), format_duration(scenario.duration)
        what = f"one of the {scenario.faults[late.entry].count} faults would begin at {at}, but the run ends at {end}"
        errors.append(_error(scenario, ("faults", late.entry, "count"), what, "lower count"))
    clash = timeline.clash(due for due in dues if not scenario.faults[due.entry].by_chance)
    if clash is not None:
        first, second, change = clash
        at, since = format_duration(second.at_ns), format_duration(first.at_ns)
        what = f"at {at} {second.case.target.text} has this {second.kind} already, by the fault of {since}"
        if change is not None:
            what = (
                f"at {at} {second.kind} would set {change.setting} of port {change.port.name} at {change.port.node} to "
                f"{change.value}, which {first.kind} of {since} holds otherwise"
            )
        errors.append(_error(scenario, ("faults", second.entry), what, "end the first one earlier, or leave one out"))
    return errors


def _pair_errors(scenario: Scenario, clos: Clos) -> list[InputError]:
    errors = []
    seen: set[tuple[str, str]] = set()
    for number, workload in enumerate(scenario.workloads):
        if isinstance(workload, JobWorkload):
            errors += _job_errors(scenario, number, workload, clos, seen)
            continue
        where: Where = ("workloads", number, "pairs")
        if workload.pairs == "across" and clos.spec.t0_groups < 2:
            errors.append(_error(scenario, where, "'across' needs two T0 groups", "give pairs as a list of [src, dst]"))
            continue
        try:
            found = pairs(workload, clos, scenario.seed)
        except InputError as error:
            errors.append(_error(scenario, where, error.what, error.hint))
            continue
        for position, (src, dst) in enumerate(found):
            place = (*where, position)
            for name in (src, dst):
                try:
                    find_host(clos, name)
                except InputError as error:
                    errors.append(_error(scenario, place, error.what, error.hint))
            if src == dst:
                errors.append(_error(scenario, place, f"{src!r} would send to itself", "name two hosts"))
            if (src, dst) in seen:
                errors.append(_error(scenario, place, f"{src} to {dst} is here twice", "leave one out"))
            seen.add((src, dst))
    return errors


def _job_errors(
    scenario: Scenario, number: int, workload: JobWorkload, clos: Clos, seen: set[tuple[str, str]]
) -> list[InputError]:
    """Each rank has a host, and no two workloads have a flow between the same two."""
    if workload.hosts is None and (workload.ranks or 0) > clos.spec.hosts:
        what = f"{workload.ranks} ranks, but lab {clos.spec.name} has {clos.spec.hosts} hosts"
        return [_error(scenario, ("workloads", number, "ranks"), what, f"write {clos.spec.hosts} or less")]
    errors = []
    for position, name in enumerate(workload.hosts or []):
        try:
            find_host(clos, name)
        except InputError as error:
            errors.append(_error(scenario, ("workloads", number, "hosts", position), error.what, error.hint))
    if errors:
        return errors
    for src, dst in pairs(workload, clos, scenario.seed):
        if (src, dst) in seen:
            what = f"{src} sends to {dst} in an earlier workload already"
            return [_error(scenario, ("workloads", number), what, "leave one out, or name other hosts")]
        seen.add((src, dst))
    return []
