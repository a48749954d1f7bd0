"""Collects what agents sampled and saw, turns it into the records of `testbed.measure`, and hands it to the recorder.

An agent speaks of its queue pairs, a run of its flows. Of a flow, the receiver's samples tell the goodput and the
sender's events the losses and EVs; the receiver's own EVs carry only SACKs, and are not the flow's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from testbed.chaos.stage import Agents
from testbed.chaos.traffic import Ends
from testbed.measure.record import (
    CarrierChanged,
    EvChanged,
    EvCount,
    Machine,
    PacketLost,
    PortChanged,
    QpFailed,
    Received,
    RunEvent,
)
from testbed.measure.recorder import Recorder

Fields = dict[str, Any]
_MAX_ROUNDS = 20  # of `collect` for one agent that always has more


class Collector:
    """For one run; `ends` are its flows. `totals` is the agents' last word on their counters, by host."""

    def __init__(self, agents: Agents, recorder: Recorder, ends: Iterable[Ends]) -> None:
        self._agents = agents
        self._recorder = recorder
        self._senders = {(one.flow.src, one.src_qpn): one.flow.name for one in ends}
        self._receivers = {(one.flow.dst, one.dst_qpn): one.flow.name for one in ends}
        self.totals: dict[str, Fields] = {}
        self._at_start: dict[str, Fields] = {}
        self._dropped_at_start = 0
        self._dropped = 0

    def begin(self) -> None:
        """Forget what the agents saw before this run, and note where their counters stand."""
        answers = self._collect(keep=False)
        self._at_start = {host: answer["totals"] for host, answer in answers.items()}
        self._dropped_at_start = self._dropped

    def collect(self) -> list[RunEvent]:
        """Take in all that is new; returns the events."""
        before = len(self._recorder.run.events)
        self._collect(keep=True)
        self._recorder.flush()
        return self._recorder.run.events[before:]

    def machine(self) -> Machine:
        """The agents' part of the machine's figures, from `begin` to the last `collect`."""
        return Machine(
            socket_drops=self._since_start("socket_drops"),
            late_timers=self._since_start("late_timers"),
            agents=len(self._at_start),
            events_dropped=self._dropped - self._dropped_at_start,
        )

    def _since_start(self, name: str) -> int:
        return sum(self.totals[host][name] - before[name] for host, before in self._at_start.items())

    def _collect(self, keep: bool) -> dict[str, Fields]:
        waiting = self._agents.hosts
        answers: dict[str, Fields] = {}
        for _ in range(_MAX_ROUNDS):
            fresh = self._agents.call_each("collect", {host: {} for host in waiting})
            if keep:
                for host, answer in fresh.items():
                    self._take(host, answer)
            answers.update(fresh)
            waiting = [host for host in waiting if fresh[host]["more"]]
            if not waiting:
                break
        self.totals = {host: answer["totals"] for host, answer in answers.items()}
        self._dropped = sum(answer["samples_dropped"] + answer["events_dropped"] for answer in answers.values())
        return answers

    def _take(self, host: str, answer: Fields) -> None:
        for sample in answer["samples"]:
            key = (host, sample["qpn"])
            if key in self._receivers:
                received = Received(sample["t_ns"], tuple(sample["bytes_received_by_port"]))
                self._recorder.received(self._receivers[key], received)
            if key in self._senders:
                self._recorder.ev_count(self._senders[key], EvCount(sample["t_ns"], sample["evs"]))
        for fields in answer["events"]:
            event = self._event(host, fields)
            if event is not None:
                self._recorder.event(event)

    def _event(self, host: str, fields: Fields) -> RunEvent | None:
        """An agent's event as the run's; None for what belongs to no flow."""
        t_ns = fields["now_ns"]
        if fields["kind"] == "CarrierChanged":
            return CarrierChanged(t_ns, host, fields["port"], fields["up"])
        key = (host, fields["qpn"])
        sender = self._senders.get(key)
        flow = sender or self._receivers.get(key)
        if flow is None:
            return None
        match fields["kind"]:
            case "PacketLost" if sender:
                return PacketLost(t_ns, flow, fields["ev"], fields["psn"], fields["sent_ns"], fields["cause"])
            case "EvChanged" if sender:
                return EvChanged(t_ns, flow, fields["ev"], fields["old"], fields["new"], fields["why"])
            case "PortChanged":
                return PortChanged(t_ns, host, fields["port"], fields["up"], fields["end"], flow)
            case "QpFailed":
                return QpFailed(t_ns, flow, fields["why"])
        return None
