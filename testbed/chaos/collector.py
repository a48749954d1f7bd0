"""Collects what agents sampled and saw, turns it into the records of `testbed.measure`, and hands it to the recorder.

An agent speaks of its queue pairs, a run of its flows. Of a flow, the receiver's samples tell the goodput and the
sender's events the losses and EVs; the receiver's own EVs carry only SACKs, and are not the flow's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import median
from typing import Any

from testbed.chaos.stage import Agents, ask
from testbed.chaos.traffic import Ends
from testbed.lab.follow import Follower
from testbed.measure.record import (
    CarrierChanged,
    EvChanged,
    EvCount,
    Flow,
    Machine,
    PacketLost,
    PlaneDecided,
    PortChanged,
    QpFailed,
    Received,
    RunEvent,
)
from testbed.measure.recorder import Recorder, Sink

Fields = dict[str, Any]


class _Lane:
    """A queue pair that a flow is received on; `bytes_by_plane` goes on when a new agent begins at 0 again."""

    def __init__(self) -> None:
        self.bytes_by_plane: list[int] = []
        self._last: list[int] = []
        self._before: list[int] = []

    def take(self, counted: list[int]) -> None:
        """What it has counted since it was made."""
        if not self._before:
            self._before = [0] * len(counted)
        elif sum(counted) < sum(self._last):
            self._before = self.bytes_by_plane
        self._last = counted
        self.bytes_by_plane = [old + new for old, new in zip(self._before, counted, strict=True)]


class Translator:
    """From the agents' queue pairs to flows: what they sampled and saw becomes records for `sink`.

    The queue pairs that share a flow are sampled at one moment and are one sample of it. Those that have gone (a job
    was restarted) count with what they had.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._senders: dict[tuple[str, int], str] = {}
        self._receivers: dict[tuple[str, int], str] = {}
        self._lanes: dict[str, dict[tuple[str, int], _Lane]] = {}  # by flow

    def add(self, flow: Flow, src_qpn: int, dst_qpn: int) -> None:
        """A flow and the numbers of its two queue pairs, or of two more; again: no effect."""
        self._senders[flow.src, src_qpn] = flow.name
        key = (flow.dst, dst_qpn)
        self._receivers[key] = flow.name
        self._lanes.setdefault(flow.name, {}).setdefault(key, _Lane())

    def take(self, host: str, samples: list[Fields], events: list[Fields]) -> None:
        """Hand on what belongs to one of the flows."""
        for t_ns, together in groupby(samples, key=itemgetter("t_ns")):
            self._take_samples(host, t_ns, together)
        for fields in events:
            event = self._event(host, fields)
            if event is not None:
                self._sink.event(event)

    def _take_samples(self, host: str, t_ns: int, samples: Iterable[Fields]) -> None:
        """What the queue pairs of a host had at one moment."""
        received: dict[str, None] = {}
        evs: dict[str, Counter[str]] = {}
        for sample in samples:
            key = (host, sample["qpn"])
            if (flow := self._receivers.get(key)) is not None:
                self._lanes[flow][key].take(sample["bytes_received_by_port"])
                received[flow] = None
            if (flow := self._senders.get(key)) is not None:
                evs.setdefault(flow, Counter()).update(sample["evs"])
        for flow in received:
            lanes = [lane.bytes_by_plane for lane in self._lanes[flow].values() if lane.bytes_by_plane]
            self._sink.received(flow, Received(t_ns, tuple(map(sum, zip(*lanes, strict=True)))))
        for flow, states in evs.items():
            self._sink.ev_count(flow, EvCount(t_ns, dict(states)))

    def _event(self, host: str, fields: Fields) -> RunEvent | None:
        """An agent's event as the run's; None for what belongs to no flow."""
        t_ns = fields["now_ns"]
        if fields["kind"] == "CarrierChanged":
            return CarrierChanged(t_ns, host, fields["port"], fields["up"])
        if fields["kind"] == "PlaneDecided":
            evidence = (fields[name] for name in ("plane", "action", "why", "probes", "lost"))
            return PlaneDecided(t_ns, host, *evidence)
        key = (host, fields["qpn"])
        sender = self._senders.get(key)
        flow = sender or self._receivers.get(key)
        if flow is None:
            return None
        match fields["kind"]:
            case "PacketLost" if sender:
                told = (fields[name] for name in ("ev", "psn", "sent_ns", "cause", "rtt_ns", "window_ns"))
                return PacketLost(t_ns, flow, *told)
            case "EvChanged" if sender:
                return EvChanged(t_ns, flow, fields["ev"], fields["old"], fields["new"], fields["why"])
            case "PortChanged":
                return PortChanged(t_ns, host, fields["port"], fields["up"], fields["end"], flow)
            case "QpFailed":
                return QpFailed(t_ns, flow, fields["why"])
        return None


class Collector:
    """For one run; `ends` are its flows. `totals` is by host."""

    def __init__(self, agents: Agents, recorder: Recorder, ends: Sequence[Ends]) -> None:
        self._agents = agents
        self._ends = ends
        self._recorder = recorder
        self._translator = Translator(recorder)
        for one in ends:
            self._translator.add(one.flow, one.src_qpn, one.dst_qpn)
        self._follower = Follower(agents)
        self._at_start: dict[str, Fields] = {}

    def add(self, flow: Flow, src_qpn: int, dst_qpn: int) -> None:
        """See Translator."""
        self._translator.add(flow, src_qpn, dst_qpn)

    @property
    def totals(self) -> dict[str, Fields]:
        """The agents' last word on their counters."""
        return self._follower.totals

    def begin(self) -> None:
        """What the agents saw before this run is none of its business; note where their counters stand."""
        self._follower.skip_to_now()
        self._at_start = self._follower.totals

    def collect(self, but: Collection[str] = ()) -> list[RunEvent]:
        """Take in all that is new, but of hosts whose agents stand still: later; returns the events."""
        before = len(self._recorder.run.events)
        for host, samples, events in self._follower.read(but):
            self._translator.take(host, samples, events)
        self._recorder.flush()
        return self._recorder.run.events[before:]

    def round_trip(self, now_ns: int, but: Collection[str] = ()) -> None:
        """Note how long a round trip takes now: the median of the last samples of all EVs of all senders.

        An agent that was killed and is back knows nothing of its flows, and is not asked.
        """
        there = {(host, qp["qpn"]) for host, totals in self.totals.items() if host not in but for qp in totals["qps"]}
        ends = [(one.flow.src, one.src_qpn) for one in self._ends]
        senders = [(host, {"qpn": qpn}) for host, qpn in ends if (host, qpn) in there]
        samples = [ev["rtt_ns"] for answer in ask(self._agents, "ev-map", senders) for ev in answer["evs"]]
        known = [sample for sample in samples if sample]
        if known:
            self._recorder.run.round_trips.append((now_ns, round(median(known))))

    def machine(self) -> Machine:
        """The agents' part of the machine's figures, from `begin` to the last `collect`."""
        return Machine(
            socket_drops=self._since_start("socket_drops"),
            late_timers=self._since_start("late_timers"),
            agents=len(self._at_start),
            events_dropped=self._follower.missed,
        )

    def _since_start(self, name: str) -> int:
        """A host whose agent was started anew counts from there."""
        ends = [(self.totals[host][name], before[name]) for host, before in self._at_start.items()]
        return sum(now - before if now >= before else now for now, before in ends)
