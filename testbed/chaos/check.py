"""Holds a scenario against the lab it is to run on, before anything is started: names, times, pairs of hosts."""

from __future__ import annotations

from testbed.chaos import timeline
from testbed.chaos.kinds import find_kind
from testbed.chaos.scenario import Scenario, Workload
from testbed.measure.record import Flow
from testbed.topology.clos import Clos, host_name
from testbed.topology.errors import InputError
from testbed.topology.labspec import transport_problems
from testbed.topology.select import find_host, find_link
from testbed.topology.sizes import payload_share
from testbed.topology.units import format_duration
from testbed.topology.yamlfile import Where


def check(scenario: Scenario, clos: Clos) -> None:
    """Raises InputError with all that does not fit, each with its line and the nearest right thing."""
    errors = [*_transport_errors(scenario, clos), *_fault_errors(scenario, clos), *_pair_errors(scenario, clos)]
    if errors:
        raise InputError.several(errors)


def flows(scenario: Scenario, clos: Clos) -> list[tuple[Workload, Flow]]:
    """The flows of a checked scenario with the workload that each belongs to. The offered rate is payload."""
    line_rate_bps = clos.spec.planes * clos.spec.rates.host * payload_share()
    found = []
    for workload in scenario.workloads:
        full = workload.load == "full"
        offered_bps = line_rate_bps if workload.load == "full" else workload.load * line_rate_bps
        found += [(workload, Flow(src, dst, offered_bps, full)) for src, dst in pairs(workload, clos)]
    return found


def pairs(workload: Workload, clos: Clos) -> list[tuple[str, str]]:
    """(sender, receiver) of each flow."""
    if workload.pairs != "across":
        return list(workload.pairs)
    hosts, rack = clos.spec.hosts, clos.spec.hosts_per_t0
    return [(host_name(host), host_name((host + rack) % hosts)) for host in range(hosts)]


def _error(scenario: Scenario, where: Where, what: str, hint: str = "") -> InputError:
    document = scenario._document
    return InputError(what, hint) if document is None else document.error(where, what, hint)


def _transport_errors(scenario: Scenario, clos: Clos) -> list[InputError]:
    problems = transport_problems(clos.spec, scenario.transport_of(clos.spec))
    return [_error(scenario, problem.where, problem.what, problem.hint) for problem in problems]


def _fault_errors(scenario: Scenario, clos: Clos) -> list[InputError]:
    errors = []
    for number, entry in enumerate(scenario.faults):
        where: Where = ("faults", number)
        try:
            find_kind(entry.kind)
        except InputError as error:
            errors.append(_error(scenario, (*where, "kind"), error.what, error.hint))
        try:
            link = find_link(clos, entry.target).name
            if link != entry.target:
                errors.append(_error(scenario, (*where, "target"), f"the link's name is {link!r}", "near end first"))
        except InputError as error:
            errors.append(_error(scenario, (*where, "target"), error.what, error.hint))
        if entry.at >= scenario.duration:
            at, end = format_duration(entry.at), format_duration(scenario.duration)
            errors.append(_error(scenario, (*where, "at"), f"the fault would begin at {at}, but the run ends at {end}"))
    dues = timeline.unroll(scenario)
    late = next((due for due in dues if due.at_ns >= scenario.duration > scenario.faults[due.entry].at), None)
    if late is not None:
        at, end = format_duration(late.at_ns), format_duration(scenario.duration)
        what = f"one of the {scenario.faults[late.entry].count} faults would begin at {at}, but the run ends at {end}"
        errors.append(_error(scenario, ("faults", late.entry, "count"), what, "lower count"))
    clash = timeline.overlapping(dues)
    if clash is not None:
        first, second = clash
        at, since = format_duration(second.at_ns), format_duration(first.at_ns)
        what = f"at {at} {second.target} is already down by the fault of {since}"
        errors.append(_error(scenario, ("faults", second.entry), what, "end the first one earlier, or leave one out"))
    return errors


def _pair_errors(scenario: Scenario, clos: Clos) -> list[InputError]:
    errors = []
    seen: set[tuple[str, str]] = set()
    for number, workload in enumerate(scenario.workloads):
        where: Where = ("workloads", number, "pairs")
        if workload.pairs == "across" and clos.spec.t0_groups < 2:
            errors.append(_error(scenario, where, "'across' needs two T0 groups", "give pairs as a list of [src, dst]"))
            continue
        for position, (src, dst) in enumerate(pairs(workload, clos)):
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
