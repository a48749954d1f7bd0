"""Clustermapper's map of links for the page: what self-probes say is not ok, whoever switched them on.

One small question to each agent a second; what a look says and what it changed go out as messages:

    health  probed: whether any host probes; ours: since somebody asked for it on the page; elements: those that are not
            ok, by name; denied: planes by host; counts of states, probes of the least probed path, what loss would show
    event   a link or switch that became something else than it was, in words
"""

from __future__ import annotations

import os
from typing import Any

from agents.clustermapper.element import Finding
from agents.clustermapper.evidence import loss_would_show
from testbed.health.gather import Asked, Change, Map, Mapper
from testbed.health.session import told
from testbed.measure.view import Message, View
from testbed.topology.clos import host_name
from testbed.topology.errors import InputError
from testbed.topology.healthspec import agent_settings
from testbed.topology.labspec import LabSpec

LOOK_NS = 1_000_000_000
_QUIET = ("ok", "unknown")


class LinkMap:
    """The map of one lab. For the lab's thread; let go of it with `stop`."""

    def __init__(self, agents: Asked, spec: LabSpec) -> None:
        self._agents = agents
        self._spec = spec
        self._settings = {**agent_settings(spec, spec.health, os.cpu_count() or 1), "policy": "observe"}
        self._mapper = Mapper(agents, spec)
        self._ours = False
        self._due_ns = 0
        self._found: Map | None = None

    def look(self, view: View, now_ns: int) -> list[Message]:
        """What there is to tell, once in LOOK_NS; nothing where paths cannot be chosen, so that nothing can probe."""
        if now_ns < self._due_ns or not self._spec.source_routed:
            return []
        self._due_ns = now_ns + LOOK_NS
        self._found = self._mapper.look()
        lines = [
            _line(change) for change in self._found.changes if (change.old, change.finding.state) != ("unknown", "ok")
        ]
        return [*(view.told(now_ns, "health", line) for line in lines), self._told(self._found)]

    def start(self) -> None:
        """Probe, where no host does yet. Raises InputError where no probe can choose its path."""
        if not self._spec.source_routed:
            raise InputError(f"lab {self._spec.name} hashes flows onto paths; it has no self-probes")
        if not self._mapper.look().reports:
            self._mapper = Mapper(self._agents, self._spec, self._settings)
            self._ours = True
            self._mapper.look()  # switches on who is idle
        self._due_ns = 0

    def stop(self) -> None:
        """Switch off what was switched on here."""
        if self._ours:
            self._ours = False
            self._mapper = Mapper(self._agents, self._spec)
            hosts = [host_name(host) for host in range(self._spec.hosts)]
            self._agents.ask_each("health-set", {host: {"policy": "off"} for host in hosts}, within_s=1)
        self._due_ns = 0

    def of(self, name: str) -> dict[str, Any] | None:
        """What is known of a link or switch; None when nothing probes it."""
        finding = self._found.findings.get(name) if self._found and self._found.reports else None
        return None if finding is None else told(finding)

    def _told(self, found: Map) -> Message:
        counts: dict[str, int] = {}
        for finding in found.findings.values():
            counts[finding.state] = counts.get(finding.state, 0) + 1
        return {
            "type": "health",
            "probed": bool(found.reports),
            "ours": self._ours,
            "counts": counts,
            "probes": found.fewest_probes,
            "would_show": loss_would_show(found.fewest_probes),
            "denied": found.denied,
            "elements": {
                name: {**told(finding), "for_s": (found.t_ns - finding.since_ns) / 1e9}
                for name, finding in found.findings.items()
                if finding.state not in _QUIET
            },
        }


def _line(change: Change) -> str:
    finding: Finding = change.finding
    loss = f" ({finding.loss:.1%} of {finding.probes})" if finding.loss else ""
    hosts = ", ".join(map(host_name, finding.found_by))
    return f"PROBES     {change.name} {change.old} -> {finding.state}: {finding.why}{loss}, found by {hosts}"
