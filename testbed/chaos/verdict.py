"""The verdict of a run: pass, fail, or invalid when the machine and not the fabric was the bottleneck.

Two ways in which the machine can be at fault. Packets that the machine dropped and events that were never collected are
in the figures, whatever these say: such a run is void. A busy CPU and late agents only make a run slower: they excuse
what slowness can spoil (the table of expectations says what), and are a warning where nothing was missed. Where busy
CPUs let through less than half of what the fabric carries, the run was of the machine, and is void as well. Nothing
excuses a wrong byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.chaos import fitting
from testbed.chaos.expectations import EXPECTATIONS, Limit, judge
from testbed.measure import faults, phases, ports_view
from testbed.measure.judgement import Judgement, Verdict
from testbed.measure.record import Run

EXIT_CODES: dict[Verdict, int] = {"pass": 0, "fail": 1, "invalid": 4}

CPU_LIMIT = 0.97  # of all cores over the run: above it nobody can say what waited for the CPU
HELD_BACK_CPU, HELD_BACK_SHARE = 0.9, 0.5  # so busy, and so little of what the fabric carries came through
LATE_TIMERS_PER_AGENT_SECOND = 2.0  # wake-ups late by an agent's own measure; some come with any shared machine


@dataclass(frozen=True, slots=True)
class Overload:
    """Something that the machine lacked, with advice; `voids` the figures, or only excuses what was missed."""

    what: str
    voids: bool


def overloads(run: Run) -> list[Overload]:
    """What the machine lacked during the run; empty when it kept up."""
    machine = run.machine
    agent_seconds = max((run.stop_ns - run.start_ns) / 1e9 * machine.agents, 1e-9)
    late = machine.late_timers / agent_seconds > LATE_TIMERS_PER_AGENT_SECOND
    slower = fitting.advice(run)
    alone = f"end other work on this machine, or {slower}"
    found = [
        (machine.socket_drops > 0, True, f"{machine.socket_drops} packets were dropped at agents' sockets", slower),
        (machine.softnet_drops > 0, True, f"the kernel dropped {machine.softnet_drops} packets unseen", slower),
        (machine.events_dropped > 0, True, f"{machine.events_dropped} events of agents were lost", alone),
        (machine.cpu_fraction >= CPU_LIMIT, False, f"the CPUs were {machine.cpu_fraction:.0%} busy", alone),
        (late, False, f"agents woke up late {machine.late_timers} times", alone),
    ]
    lacks = [(what, voids, help) for holds, voids, what, help in found if holds]
    # The advice is the same for all: it is given once.
    return [Overload(what if number else f"{what}; {help}", voids) for number, (what, voids, help) in enumerate(lacks)]


def held_back(run: Run) -> float | None:
    """The share that came through of what the fabric carries, where busy CPUs kept the rest back; None where not.

    Where the fabric hashes, flows that collide get less than it carries on any machine, and jobs send now and then:
    there nothing is said.
    """
    if run.virtual or run.jobs or run.machine.cpu_fraction < HELD_BACK_CPU or not run.clos.spec.source_routed:
        return None
    came = carried = 0.0
    for phase in phases.phases(run):
        if phase.goodput_bps is not None:
            came += phase.goodput_bps * (phase.stop_ns - phase.start_ns)
            carried += phase.oracle_bps * (phase.stop_ns - phase.start_ns)
    return came / carried if came < HELD_BACK_SHARE * carried else None


def _overloads(run: Run) -> list[Overload]:
    """The same with what needs the capacity oracle."""
    found = overloads(run)
    share, busy = held_back(run), run.machine.cpu_fraction
    if share is not None:
        what = f"the CPUs were {busy:.0%} busy and let {share:.0%} through of what the fabric carries"
        found.append(Overload(what if found else f"{what}; {fitting.advice(run)}", True))
    return found


def decide(run: Run, limits: Iterable[Limit]) -> Judgement:
    """Judge a run by the limits of its scenario (see `expectations.judge`)."""
    judged = judge(run, limits)
    missed = [row.title for row in judged if not row.ok]
    excuses = {EXPECTATIONS[row.name].excused_by for row in judged if not row.ok}
    overloaded = _overloads(run)
    machine = [*([run.interrupted] if run.interrupted else []), *(overload.what for overload in overloaded)]
    void = bool(run.interrupted) or any(overload.voids for overload in overloaded)
    warnings = [*machine, *ports_view.disagreements(run, faults.costs(run))]
    if "nothing" in excuses:
        return Judgement("fail", missed, judged, warnings=warnings)
    if void or (machine and excuses == {"slowness"}):
        return Judgement("invalid", machine, judged)
    return Judgement("fail" if missed else "pass", missed, judged, warnings=warnings)
