"""The flows of a run on the agents: queue pairs, workloads at both ends, and what both counted in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from agents.mrc.profile import path_fields
from testbed.chaos.stage import Agents, ask
from testbed.chaos.workload import Workload
from testbed.measure.record import Flow, FlowTotals
from testbed.topology.clos import Clos
from testbed.topology.errors import InvalidRunError

_MIN_REGION_BYTES = 1 << 20  # of a flow
_MIN_SLOTS = 8  # messages that fit into a queue pair's region: so many can be under way

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ends:
    """Two queue pairs of a flow, and the receiver's memory as the sender has to name it."""

    flow: Flow
    workload: Workload
    src_qpn: int
    dst_qpn: int
    region: Fields


class Traffic:
    """All flows of a run. `connect`, then `start`; `stop` if need be; `drained`; `totals`; `disconnect`."""

    def __init__(self, agents: Agents, clos: Clos) -> None:
        self._agents = agents
        self._clos = clos
        self.ends: list[Ends] = []

    def connect(self, flows: Sequence[tuple[Workload, Flow]], kind: Fields) -> None:
        """Make and connect the queue pairs of each flow. `kind`: `transport` and `options` of `qp-create`."""
        self._clear()
        flows = [one for one in flows for _ in range(one[1].qps)]
        sources = ask(
            self._agents,
            "qp-create",
            [
                (flow.src, {**self._creation(flow.dst, work, kind), **self._profile(flow.src, work, kind)})
                for work, flow in flows
            ],
        )
        targets = ask(
            self._agents, "qp-create", [(flow.dst, self._creation(flow.src, work, kind)) for work, flow in flows]
        )
        connections = []
        for (workload, flow), source, target in zip(flows, sources, targets, strict=True):
            connections += [(flow.src, _connection(source, target)), (flow.dst, _connection(target, source))]
            region = {name: target[name] for name in ("address", "rkey", "size")}
            self.ends.append(Ends(flow, workload, source["qpn"], target["qpn"], region))
        ask(self._agents, "qp-connect", connections)

    def start(self, start_ns: int, stop_ns: int, seed: int) -> None:
        """Start the receivers, then the senders, which begin at `start_ns` and post nothing after `stop_ns`.

        Queue pairs that share a flow take turns, so that it offers its load as evenly as one does.
        """
        common = [
            {
                "kind": ends.workload.kind,
                "message_bytes": ends.workload.message,
                "seed": seed * len(self.ends) + number,
            }
            for number, ends in enumerate(self.ends)
        ]
        receivers = [
            (ends.flow.dst, {**fields, "role": "receive", "qpn": ends.dst_qpn})
            for ends, fields in zip(self.ends, common, strict=True)
        ]
        senders = []
        turns: Counter[str] = Counter()
        for ends, fields in zip(self.ends, common, strict=True):
            message_ns = 0 if ends.flow.full else round(ends.workload.message * 8e9 / ends.flow.offered_bps)
            begins_ns = start_ns + turns[ends.flow.name] * message_ns
            turns[ends.flow.name] += 1
            load = {} if ends.flow.full else {"load_bps": max(1, round(ends.flow.offered_bps / ends.flow.qps))}
            times = {"start_at_ns": begins_ns, "stop_at_ns": stop_ns}
            senders.append(
                (ends.flow.src, {**fields, **times, **load, **ends.region, "role": "send", "qpn": ends.src_qpn})
            )
        ask(self._agents, "workload-start", receivers)
        ask(self._agents, "workload-start", senders)

    def stop(self) -> None:
        """Let the senders post nothing more."""
        self._agents.call("workload-stop")

    def drained(self) -> bool:
        """Has everything that was sent been acknowledged, or never will be?"""
        statuses = self._agents.call("workload-status", brief=True).values()
        return all(
            workload["drained"] for status in statuses for workload in status["workloads"] if workload["role"] == "send"
        )

    def totals(self, agents: dict[str, Fields], without: Container[str] = ()) -> dict[str, FlowTotals]:
        """By flow, from the reports of the workloads and the totals that `collect` gives for each host.

        Flows of hosts in `without` are left out: their agents know nothing of them any more.

        Raises InvalidRunError when a flow never started, since an agent refused it.
        """
        counters = {(host, qp["qpn"]): qp for host, totals in agents.items() for qp in totals["qps"]}
        reports = {
            (host, report["qpn"], report["role"]): report
            for host, status in self._agents.call("workload-status").items()
            for report in status["workloads"]
        }
        totals: dict[str, FlowTotals] = {}
        for ends in self.ends:
            if ends.flow.src in without or ends.flow.dst in without:
                continue
            if (ends.flow.src, ends.src_qpn, "send") not in reports:
                raise InvalidRunError(f"flow {ends.flow.name} was never started")
            sent = reports[ends.flow.src, ends.src_qpn, "send"]
            received = reports[ends.flow.dst, ends.dst_qpn, "receive"]
            sender, receiver = counters[ends.flow.src, ends.src_qpn], counters[ends.flow.dst, ends.dst_qpn]
            total = totals.setdefault(ends.flow.name, FlowTotals())
            total.bytes_sent += sent["bytes_posted"]
            total.bytes_delivered += received["bytes_delivered"]
            total.bytes_wrong += received["bytes_wrong"]
            total.messages_sent += sent["messages_posted"]
            total.messages_delivered += received["messages"] - received["messages_unexpected"]
            total.completions.update(dict(sent["times"]))
            total.add_sender(sender)
            total.add_receiver(receiver)
        return totals

    def disconnect(self) -> None:
        """Take the queue pairs back, with their memory and workloads."""
        self._clear()
        self.ends = []

    def _clear(self) -> None:
        """Destroy every queue pair of the agents: this run's, or those that a killed run left."""
        greetings = self._agents.call("hello")
        ask(
            self._agents,
            "qp-destroy",
            [(host, {"qpn": qpn}) for host, answer in greetings.items() for qpn in answer["qps"]],
        )
        self._agents.call("profiles-forget")

    def _profile(self, host: str, workload: Workload, kind: Fields) -> Fields:
        """The EV profile of a workload that is to use some of the paths only, made on this host."""
        if workload.t1s is None or kind["transport"] != "mrc":
            return {}
        planes = self._clos.spec.planes
        number = ask(self._agents, "ev-profile-create", [(host, {})])[0]["profile"]
        fields = [{"width": one.width, "max_val": one.max_val} for one in path_fields(planes, workload.t1s)]
        content = {"mode": "generated", "count": planes * workload.t1s, "fields": fields}
        for change in ({"state": "OFFLINE", **content}, {"state": "ONLINE"}):
            ask(self._agents, "ev-profile-modify", [(host, {"profile": number, **change})])
        return {"ev_profile": number}

    def _creation(self, peer: str, workload: Workload, kind: Fields) -> Fields:
        region_bytes = max(_MIN_REGION_BYTES // workload.qps, _MIN_SLOTS * workload.message)
        return {"peer": self._clos.nodes[peer].index, "region_bytes": region_bytes, **kind}


def _connection(own: Fields, remote: Fields) -> Fields:
    return {"qpn": own["qpn"], "remote_qpn": remote["qpn"], "remote_psn": remote["psn"]}
