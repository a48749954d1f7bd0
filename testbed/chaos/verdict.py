"""The verdict of a run: pass, fail, or invalid when the machine and not the fabric was the bottleneck.

An overloaded machine excuses a missed expectation, and it also voids a good one: with packets dropped by the machine
the figures are not the network's. It never excuses a wrong byte.
"""

from __future__ import annotations

from testbed.chaos.expectations import EXPECTATIONS, judge
from testbed.measure.judgement import Judgement, Verdict
from testbed.measure.record import Run

EXIT_CODES: dict[Verdict, int] = {"pass": 0, "fail": 1, "invalid": 4}

CPU_LIMIT = 0.97  # of all cores over the run: above it nobody can say what waited for the CPU
LATE_TIMERS_PER_AGENT_SECOND = 2.0  # wake-ups late by an agent's own measure; some come with any shared machine

_SLOWER = "lower the lab's rates or the load, or run fewer hosts"
_ALONE = f"end other work on this machine, or {_SLOWER}"


def overload(run: Run) -> list[str]:
    """What the machine lacked during the run, each with advice; empty when it kept up."""
    machine = run.machine
    agent_seconds = max((run.stop_ns - run.start_ns) / 1e9 * machine.agents, 1e-9)
    found = [
        (machine.socket_drops > 0, f"{machine.socket_drops} packets were dropped at the agents' sockets; {_SLOWER}"),
        (machine.softnet_drops > 0, f"the kernel dropped {machine.softnet_drops} packets before forwarding; {_SLOWER}"),
        (machine.cpu_fraction >= CPU_LIMIT, f"the CPUs were {machine.cpu_fraction:.0%} busy; {_ALONE}"),
        (
            machine.late_timers / agent_seconds > LATE_TIMERS_PER_AGENT_SECOND,
            f"agents woke up late {machine.late_timers} times; {_ALONE}",
        ),
        (machine.events_dropped > 0, f"{machine.events_dropped} events of agents were not collected in time; {_ALONE}"),
    ]
    return [reason for holds, reason in found if holds]


def decide(run: Run, limits: dict[str, float]) -> Judgement:
    """Judge a run by the limits of its scenario (see `expectations.judge`)."""
    judged = judge(run, limits)
    missed = [row.name for row in judged if not row.ok]
    inexcusable = [name for name in missed if not EXPECTATIONS[name].excusable]
    invalid = [*([run.interrupted] if run.interrupted else []), *overload(run)]
    if inexcusable:
        return Judgement("fail", [*inexcusable, *invalid], judged)
    if invalid:
        return Judgement("invalid", invalid, judged)
    return Judgement("fail" if missed else "pass", missed, judged)
