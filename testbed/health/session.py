"""Looking at a lab that is up: probing is switched on for as long as somebody looks, if it was off."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agents.clustermapper.element import Finding
from agents.clustermapper.evidence import loss_would_show
from agents.clustermapper.settings import DEAD_RUN, TIMEOUT_INTERVALS
from testbed.health.gather import Change, Map, Mapper
from testbed.lab.agents import AgentGroup
from testbed.lab.running import RunningLab
from testbed.topology.clos import host_name
from testbed.topology.errors import InputError
from testbed.topology.healthspec import agent_settings
from testbed.topology.units import format_duration

_NS_PER_S = 1_000_000_000
LOOK_INTERVALS = DEAD_RUN + TIMEOUT_INTERVALS + 4  # a link that is dead when probing begins has shown it by then
_SHORTEST_LOOK_NS = 100_000_000


def probing(agents: AgentGroup) -> bool:
    """Whether agents of a lab probe already."""
    answers, _ = agents.ask_each("health", {host: {} for host in agents.hosts}, within_s=5)
    return any(answer["report"]["policy"] != "off" for answer in answers.values())


@contextmanager
def session(lab: RunningLab, say: Callable[[str], None]) -> Iterator[Session]:
    """Probe while it is open. Raises InputError where no probe can choose its path."""
    if not lab.spec.source_routed:
        raise InputError(
            f"lab {lab.name} hashes flows onto paths (routing: {lab.spec.routing}); a self-probe cannot choose one",
            "look at a lab with routing: srv6",
        )
    with lab.agents() as agents:
        began = not probing(agents)
        settings = agent_settings(lab.spec, lab.spec.health, os.cpu_count() or 1)
        for_us = began or lab.spec.health.policy == "off"  # whoever probes now may end before us
        if for_us:
            settings["policy"] = "observe"
        if began:
            say(f"lab {lab.name} is not probed; until this ends, each path is every {_show(settings['interval_ns'])}")
        mapper = Mapper(agents, lab.spec, settings)
        try:
            if began:
                mapper.look()
            yield Session(lab, mapper, began)
        finally:
            if for_us:
                mapper.let_go()


class Session:
    """The map of a lab, and how it is told to people and programs."""

    def __init__(self, lab: RunningLab, mapper: Mapper, began: bool) -> None:
        self._spec = lab.spec
        self._name = lab.name
        self._mapper = mapper
        self._began = began
        self._start_ns = time.monotonic_ns()

    def look_after(self, for_ns: int | None) -> Map:
        """The map after so long; without a time, as soon as a dead link would have shown."""
        found = self._mapper.look()
        if not self._began and for_ns is None:
            return found
        wait_ns = LOOK_INTERVALS * self.interval_ns(found) if for_ns is None else for_ns
        deadline_ns = self._start_ns + wait_ns
        while (left_ns := deadline_ns - time.monotonic_ns()) > 0:
            time.sleep(min(left_ns, self._pause_ns(found)) / _NS_PER_S)
            found = self._mapper.look()
        return found

    def rounds(self) -> Iterator[Map]:
        """A map about twice an interval, or ten times a second, for as long as somebody takes them."""
        while True:
            found = self._mapper.look()
            yield found
            time.sleep(self._pause_ns(found) / _NS_PER_S)

    def interval_ns(self, found: Map) -> int:
        """Between the probes of a path."""
        return max((report.interval_ns for report in found.reports.values()), default=_NS_PER_S)

    def _pause_ns(self, found: Map) -> int:
        return max(_SHORTEST_LOOK_NS, self.interval_ns(found) // 2)

    # In words

    def clock(self, t_ns: int) -> str:
        """Seconds since the session began."""
        return f"{(t_ns - self._start_ns) / _NS_PER_S:8.3f} s"

    def since(self, found: Map, finding: Finding) -> str:
        """How long ago the state began."""
        return f"{(found.t_ns - finding.since_ns) / _NS_PER_S:.1f} s ago" if finding.since_ns else ""

    def hosts(self, finding: Finding) -> str:
        """Who found it."""
        return ", ".join(host_name(host) for host in finding.found_by)

    def summary(self, found: Map) -> str:
        """What is ok, what that is worth, and what it took."""
        states: dict[str, int] = {}
        for finding in found.findings.values():
            states[finding.state] = states.get(finding.state, 0) + 1
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        interval_ns, probes = self.interval_ns(found), found.fewest_probes
        shown = loss_would_show(probes)
        loss = f"a loss of {shown:.1%} would have shown" if shown < 1 else "too few for any loss to show"
        lines = [
            f"lab {self._name}: {counts} of {len(found.findings)} links and switches",
            f"  each path probed {probes} times or more: {loss}",
            f"  every {_show(interval_ns)}: {_show(interval_ns / self._spec.time_dilation)} of the real fabric's time",
        ]
        for host, planes in found.denied.items():
            lines.append(f"  {host} has denied its planes {', '.join(map(str, planes))}")
        if found.silent:
            lines.append(f"  no answer from {', '.join(found.silent)}")
        return "\n".join(lines)

    # For programs

    def told(self, found: Map) -> dict[str, Any]:
        """For `--json`."""
        interval_ns = self.interval_ns(found)
        return {
            "lab": self._name,
            "t_ns": found.t_ns,
            "interval_ns": interval_ns,
            "interval_real_ns": round(interval_ns / self._spec.time_dilation),
            "policy": sorted({report.policy for report in found.reports.values()}),
            "probes_per_path": found.fewest_probes,
            "loss_that_would_show": loss_would_show(found.fewest_probes),
            "silent_hosts": list(found.silent),
            "denied": found.denied,
            "elements": {name: told(finding) for name, finding in found.findings.items()},
        }

    def told_change(self, change: Change) -> dict[str, Any]:
        """One change, for `--watch --json`."""
        return {"t_ns": change.t_ns, "element": change.name, "old": change.old, **told(change.finding)}


def told(finding: Finding) -> dict[str, Any]:
    """A finding for programs."""
    return {
        "kind": finding.element.kind,
        "state": finding.state,
        "why": finding.why,
        "confidence": finding.confidence,
        "loss": finding.loss,
        "probes": finding.probes,
        "since_ns": finding.since_ns,
        "found_by": [host_name(host) for host in finding.found_by],
        "rtt_p50_ns": finding.rtt_p50_ns,
        "rtt_p99_ns": finding.rtt_p99_ns,
        "marked": finding.marked,
    }


def _show(ns: float) -> str:
    return format_duration(ns)
