"""Asks all agents for their reports and keeps the map: what each element is said to be, since when, by whom.

Who gathers also deals the shares: a host that does not answer, or whose own link is bad, cannot probe T1s in that
plane, and the others of its rack take them over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.clustermapper.element import BAD, Element, Finding
from agents.clustermapper.localise import localise
from agents.clustermapper.report import HostReport
from agents.clustermapper.shares import deal
from testbed.health.names import name_of, shape_of
from testbed.topology.clos import host_name
from testbed.topology.errors import MrclabError
from testbed.topology.labspec import LabSpec

Fields = dict[str, Any]
ASK_WITHIN_S = 2.0


class Asked(Protocol):
    """The agents of a lab: answers and failures by host."""

    def ask_each(
        self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]], *, within_s: float
    ) -> tuple[dict[str, Fields], dict[str, MrclabError]]: ...


@dataclass(frozen=True, slots=True)
class Change:
    """An element that became `state`, was `old`, as the map of that moment says it."""

    t_ns: int
    name: str
    old: str
    finding: Finding


@dataclass(frozen=True)
class Map:
    """What one round of asking says. `findings` by the names of links and switches."""

    t_ns: int
    findings: dict[str, Finding]
    reports: dict[int, HostReport]
    silent: tuple[str, ...]  # hosts that did not answer
    changes: tuple[Change, ...] = field(default=())

    @property
    def accused(self) -> dict[str, str]:
        """Elements that fail, with how."""
        return {name: finding.state for name, finding in self.findings.items() if finding.state in BAD}

    @property
    def denied(self) -> dict[str, list[int]]:
        """Planes that hosts have denied, by host."""
        return {host_name(host): report.denied for host, report in self.reports.items() if report.denied}

    @property
    def fewest_probes(self) -> int:
        """Of all paths that can be probed, the probes that the verdict on the least probed one rests on."""
        paths = [path for report in self.reports.values() for path in report.paths if path.carrier]
        return min((path.window for path in paths), default=0)


class Mapper:
    """The map of one lab, gathered again and again."""

    def __init__(self, agents: Asked, spec: LabSpec, settings: Mapping[str, Any] | None = None) -> None:
        """`settings`: what hosts that do not probe are told (an agent may have been started anew); None: nothing."""
        self._agents = agents
        self._settings = settings
        self._spec = spec
        self._shape = shape_of(spec)
        self._states: dict[str, str] = {}
        self._shares: dict[tuple[int, int], tuple[int, ...]] = {}  # (plane, host) -> T1s
        self._woken: set[str] = set()  # hosts that were idle and were told to probe

    def look(self) -> Map:
        """Ask all agents once, and localise. Agents that do not answer are left out, and named."""
        hosts = [host_name(host) for host in range(self._spec.hosts)]
        answers, failures = self._agents.ask_each("health", {host: {} for host in hosts}, within_s=ASK_WITHIN_S)
        found = [HostReport.from_dict(answer["report"]) for answer in answers.values()]
        reports = {report.host: report for report in found if report.policy != "off"}
        idle = [host_name(report.host) for report in found if report.policy == "off"]
        if self._settings is not None and idle:
            self._agents.ask_each("health-set", dict.fromkeys(idle, self._settings), within_s=ASK_WITHIN_S)
            self._woken.update(idle)
        now_ns = max((report.now_ns for report in found), default=0)
        findings = {
            name_of(finding.element, self._spec.hosts_per_t0): finding for finding in localise(self._shape, reports)
        }
        changes = tuple(
            Change(now_ns, name, self._states.get(name, "unknown"), finding)
            for name, finding in findings.items()
            if finding.state != self._states.get(name, "unknown") and finding.state != "unknown"
        )
        self._states.update({name: finding.state for name, finding in findings.items() if finding.state != "unknown"})
        self._deal(reports, {finding.element: finding for finding in findings.values()})
        return Map(now_ns, findings, reports, tuple(failures), changes)

    def let_go(self) -> None:
        """Switch off the hosts that were switched on here."""
        if self._woken:
            self._agents.ask_each("health-set", {host: {"policy": "off"} for host in self._woken}, within_s=5)
            self._woken.clear()

    def _deal(self, reports: Mapping[int, HostReport], findings: Mapping[Element, Finding]) -> None:
        """Give each T1 of each rack to a host that can probe it; only hosts whose share changes are told."""
        told: set[int] = set()
        for plane in range(self._spec.planes):
            for t0 in range(self._spec.t0_groups):
                rack = [host for host in self._shape.rack(t0) if host in reports]
                able = [host for host in rack if findings[Element("nic-t0", plane, host)].state not in BAD]
                if not able or findings[Element("t0", plane, t0)].state in BAD:
                    able = rack  # nobody can do better than another
                for host, t1s in deal(able, self._spec.t1s_per_plane, plane).items():
                    has = tuple(path.t1 for path in reports[host].of_plane(plane) if path.t1 is not None)
                    self._shares[plane, host] = t1s
                    if set(has) != set(t1s):
                        told.add(host)
        fields = {
            host_name(host): {"t1s": [list(self._shares[plane, host]) for plane in range(self._spec.planes)]}
            for host in told
            if all((plane, host) in self._shares for plane in range(self._spec.planes))
        }
        if fields:
            self._agents.ask_each("health-share", fields, within_s=ASK_WITHIN_S)
