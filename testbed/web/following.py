"""Follows one lab that is up: reads agents, ports, journal and machine, and says in messages what is new.

Everything is read and nothing taken, so that runs and other pages see the same. One reading costs the agents one small
answer; ports are read from the map that the kernel shares, without a system call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from testbed.chaos.collector import Translator
from testbed.chaos.journal import Journal
from testbed.chaos.verdict import overloads
from testbed.chaos.witness import Witness
from testbed.fabric import counters
from testbed.lab.agents import AgentGroup, AgentRefusedError
from testbed.lab.follow import Fields, Follower
from testbed.lab.running import RunningLab
from testbed.measure import machine
from testbed.measure.record import Fault, Flow, Machine, Run
from testbed.measure.view import Message, View, scene
from testbed.topology.clos import Link, host_name
from testbed.topology.errors import InputError, MrclabError, nearest
from testbed.topology.select import find_link
from testbed.web.links import LinkMap

SLOW_NS = 1_000_000_000  # how often the dearer things are looked at: workloads, all port counters, the machine
MACHINE_WINDOW_NS = 5_000_000_000  # over which the machine is judged
ANSWER_WITHIN_S = 0.3  # an agent that is alive takes a few ms
ASK_AGAIN_NS = 3_000_000_000  # one that did not answer
LINKS_PER_LOOK = 8  # whose carrier is read each time, in turn; links with a fault are read every time


class PatientGroup:
    """The agents of a lab for a reader that goes on without those that do not answer: a fault may have stopped one.

    `silent` has what each of these said last. It is asked again after a while, for asking costs the time to wait.
    """

    def __init__(self, agents: AgentGroup, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._agents = agents
        self._clock = clock
        self._again_ns: dict[str, int] = {}
        self.silent: dict[str, str] = {}

    @property
    def hosts(self) -> list[str]:
        """The names of the hosts, whether they answer or not."""
        return self._agents.hosts

    def call_each(self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]]) -> dict[str, Fields]:
        """The answers that came in time."""
        return self.ask_each(op, fields_by_host)[0]

    def ask_each(
        self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]], *, within_s: float = ANSWER_WITHIN_S
    ) -> tuple[dict[str, Fields], dict[str, MrclabError]]:
        """The answers that came in time, and why others did not; never waits longer than ANSWER_WITHIN_S."""
        now_ns = self._clock()
        asked = {host: fields for host, fields in fields_by_host.items() if self._again_ns.get(host, 0) <= now_ns}
        answers, failures = self._agents.ask_each(op, asked, within_s=min(within_s, ANSWER_WITHIN_S))
        for host in answers:
            self.silent.pop(host, None)
        for host, failure in failures.items():
            if not isinstance(failure, AgentRefusedError):
                self.silent[host] = str(failure)
                self._again_ns[host] = self._clock() + ASK_AGAIN_NS
        return answers, failures


class Following:
    """One lab, from now to its end. For one thread, as the lab is; close it to let go of the lab's port map."""

    def __init__(self, lab: RunningLab) -> None:
        self.lab = lab
        self.clos = lab.clos
        self.view = View(lab.clos, time.monotonic_ns())
        self._group = lab.agents()
        self._agents = PatientGroup(self._group)
        self._follower = Follower(self._agents)
        self.links = LinkMap(self._agents, lab.spec)
        self._translator = Translator(self.view)
        self._journal = Journal(lab.dir)
        self._witness = Witness(self._journal, self.view)
        self._qps: dict[str, tuple[tuple[str, int], tuple[str, int]]] = {}  # flow -> its two ends (host, qpn)
        self._links = list(self.clos.links.values())
        self._totals: dict[str, Fields] = {host: {"qps": []} for host in lab.hosts}  # the last word of each agent
        self._turn = self._in_turn()
        self._down: set[str] = set()
        self._sent_bytes: tuple[int, list[int]] | None = None  # when, of each port
        self._slow_due_ns = 0
        self._readings: list[tuple[int, machine.Reading, Machine]] = []
        self._slow: dict[str, Any] = {}

    def close(self) -> None:
        """End the connections to the lab, and what was begun there."""
        self.links.stop()
        self._group.close()
        self.lab.close()

    def scene(self) -> Message:
        """What stands."""
        return scene(self.clos)

    def look(self) -> list[Message]:
        """What is new, and the state now. Raises MrclabError when the lab does not answer any more."""
        batches = list(self._follower.read())
        self._totals |= self._follower.totals
        self._find_flows()
        for host, samples, events in batches:
            self._translator.take(host, samples, events)
        now_ns = time.monotonic_ns()
        self._witness.look()
        all_faults = self._journal.faults()
        self._read_carrier([fault for fault in all_faults if fault.until_ns is None])
        if now_ns >= self._slow_due_ns:
            self._slow_due_ns = now_ns + SLOW_NS
            self._slow = self._look_slowly(now_ns)
        return [
            *self.view.faults(all_faults, now_ns),
            *self.view.happened(),
            *self.view.judged(now_ns, self._slow["bytes_wrong"]),
            *self.links.look(self.view, now_ns),
            self.view.tick(
                now_ns, self._loads(now_ns), down=sorted(self._down), silent=sorted(self._agents.silent), **self._slow
            ),
        ]

    def link_now(self, name: str) -> Fields:
        """State, settings and counters of a link's two ports. Raises InputError for an unknown link."""
        link = find_link(self.clos, name)
        self._read_link(link)
        ports = []
        for end, port in zip(("near", "far"), link.ends(), strict=True):
            seen = self.lab.port_map.counters(port.ifindex)
            names = ("packets", "bytes", "marked", "trimmed", "dropped", "depth_bytes")
            ports.append({"end": end, "node": port.node, "port": port.name, **{n: getattr(seen, n) for n in names}})
        return {
            "link": link.name,
            "up": link.name not in self._down,
            "rate_bps": link.rate_bps,
            "ports": ports,
            "health": self.links.of(link.name),
        }

    def ev_map(self, flow: str) -> Fields:
        """The EVs of a flow's sender, each with its state, share and round trip, and when its path last lost a packet.

        Raises InputError when there is no such flow.
        """
        if flow not in self._qps:
            raise InputError(f"there is no flow {flow!r} now", nearest(flow, self._qps))
        (host, qpn), _ = self._qps[flow]
        evs = self._group[host].call("ev-map", qpn=qpn)["evs"]
        losses = self.view.losses(flow)
        for one in evs:
            one["last_loss"] = losses.get((one["plane"], one["uplink"]))
        return {"flow": flow, "evs": evs}

    def counters(self) -> Fields:
        """What a monitoring system wants to know: ports, links, flows, faults, machine; see `metrics`."""
        return {
            "ports": [
                (link, port, self.lab.port_map.counters(port.ifindex)) for link in self._links for port in link.ends()
            ],
            "down": set(self._down),
            "flows": [
                (flow, self._qp(*src), self.view.run.received.get(flow, [])[-1:], self.view.states(flow))
                for flow, (src, _) in self._qps.items()
            ],
            "faults": self._journal.faults(),
            "cpu": self._slow.get("cpu", 0.0),
        }

    def _find_flows(self) -> None:
        """A queue pair that has sent data, and the one at its other end, are a flow."""
        flows: dict[str, Flow] = {}
        for host, totals in self._totals.items():
            for qp in totals["qps"]:
                if qp["packets_sent"] and qp["remote_qpn"] is not None:
                    flow = Flow(host, host_name(qp["peer"]), offered_bps=0.0)
                    ends = (flow.src, qp["qpn"]), (flow.dst, qp["remote_qpn"])
                    flows[flow.name] = flow
                    if self._qps.get(flow.name) != ends:
                        self._qps[flow.name] = ends
                        self._translator.add(flow, qp["qpn"], qp["remote_qpn"])
        for gone in set(self._qps) - set(flows):
            del self._qps[gone]
        self.view.set_flows(list(flows.values()))

    def _qp(self, host: str, qpn: int) -> Fields:
        return next(qp for qp in self._totals[host]["qps"] if qp["qpn"] == qpn)

    def _in_turn(self) -> Iterator[Link]:
        while True:
            yield from self._links

    def _read_carrier(self, active: list[Fault]) -> None:
        for link in islice(self._turn, LINKS_PER_LOOK):
            self._read_link(link)
        for name in {name for fault in active for name in fault.links}:
            self._read_link(self.clos.links[name])

    def _read_link(self, link: Link) -> None:
        if counters.carrier(self.lab.kernel, link.a):
            self._down.discard(link.name)
        else:
            self._down.add(link.name)

    def _loads(self, now_ns: int) -> list[int] | None:
        """Of each link, in percent of its rate: what its near port sent, and its far port; None at the first look."""
        ports = self.lab.port_map
        sent = [ports.bytes_sent(port.ifindex) for link in self._links for port in link.ends()]
        before, self._sent_bytes = self._sent_bytes, (now_ns, sent)
        if before is None:
            return None
        passed_s = (now_ns - before[0]) / 1e9
        rates = [link.rate_bps for link in self._links for _ in range(2)]
        pairs = zip(before[1], sent, rates, strict=True)
        return [round(800 * (new - old) / passed_s / rate_bps) for old, new, rate_bps in pairs]

    def _look_slowly(self, now_ns: int) -> Fields:
        """Counters since the lab is up, the machine's load, and a warning when the machine is the limit."""
        totals = self._totals
        qps = [qp for host in totals.values() for qp in host["qps"]]
        ports = [self.lab.port_map.counters(port.ifindex) for link in self._links for port in link.ends()]
        reports = self._workload_reports() if qps else []
        self._readings.append((now_ns, machine.read(), _machine_of(totals)))
        while len(self._readings) > 2 and self._readings[1][0] < now_ns - MACHINE_WINDOW_NS:
            self._readings.pop(0)
        then_ns, reading_then, agents_then = self._readings[0]
        _, reading, agents = self._readings[-1]
        window = Run("", self.lab.name, 0, self.clos, [], then_ns, max(now_ns, then_ns + SLOW_NS), 0)
        window.machine = Machine(
            cpu_fraction=reading.cpu_fraction_since(reading_then),
            softnet_drops=reading.drops_since(reading_then),
            socket_drops=max(0, agents.socket_drops - agents_then.socket_drops),
            late_timers=max(0, agents.late_timers - agents_then.late_timers),
            agents=len(totals),
        )
        return {
            "lost": sum(qp["packets_lost"] for qp in qps),
            "retransmitted": sum(qp["packets_retransmitted"] for qp in qps),
            "trimmed": sum(port.trimmed for port in ports),
            "marked": sum(port.marked for port in ports),
            "bytes_delivered": sum(report.get("bytes_delivered", 0) for report in reports),
            "bytes_wrong": sum(report.get("bytes_wrong", 0) for report in reports),
            "cpu": round(window.machine.cpu_fraction, 3),
            "warnings": [overload.what for overload in overloads(window)],
        }

    def _workload_reports(self) -> list[Fields]:
        answers = self._agents.call_each("workload-status", {host: {} for host in self._agents.hosts})
        return [report for answer in answers.values() for report in answer["workloads"]]


def _machine_of(totals: dict[str, Fields]) -> Machine:
    names = ("socket_drops", "late_timers")
    return Machine(**{name: sum(host.get(name, 0) for host in totals.values()) for name in names})
