"""What an audience sees of a lab: a short memory of what happens, told as small messages that a page or terminal draws.

The same view is fed live (from the agents of a lab that is up) and from a recorded run, so that a replay shows what the
live page showed. Four kinds of messages, each an object with `type` and, but for the scene, `t`: ms since the scene's
beginning.

    scene   what stands: nodes, links, rates; sent once
    tick    ten times a second: goodput per plane and flow (kb/s of payload), paths out of use, counters, link loads
    event   something that happened, in words
    faults  the faults in force, whenever one comes or goes
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agents.wire import ev as entropy
from testbed.measure import faults, story
from testbed.measure.faults import FaultCost
from testbed.measure.record import (
    GOOD_STATES,
    EvChanged,
    EvCount,
    Fault,
    Flow,
    PacketLost,
    PortChanged,
    Received,
    Run,
    RunEvent,
)
from testbed.topology import graph
from testbed.topology.clos import Clos

Message = dict[str, Any]

TICK_NS = 100_000_000
MEMORY_NS = 90_000_000_000  # what is older cannot be seen any more, and no fault's figures need it
WINDOW_NS = 200_000_000  # of a mean: messages are so large that less shows each of them
SILENCE_NS = 600_000_000  # a flow without samples for so long has stopped
SETTLED_NS = 1_500_000_000  # after a fault began: by then its losses have been seen, and its figures stand
MOST_SHADES = 200
BURST_GAP_NS = 300_000_000  # between what belongs to different causes
_FORGET_EVERY = 50  # ticks

Cell = tuple[int, int]  # (plane, T1)


class _Meter:
    """The goodput of one flow: a mean over the last `WINDOW_NS` of its receiver's samples."""

    def __init__(self, first: Received) -> None:
        self._window = deque([first])

    @property
    def newest(self) -> Received:
        """The last sample."""
        return self._window[-1]

    def take(self, sample: Received) -> None:
        """A new sample; when it counts less than the last one, it is of another queue pair: a new run's."""
        if sum(sample.bytes_by_plane) < sum(self.newest.bytes_by_plane):
            self._window.clear()
        self._window.append(sample)
        while len(self._window) > 2 and self._window[1].t_ns <= sample.t_ns - WINDOW_NS:
            self._window.popleft()

    def by_plane_bps(self, now_ns: int) -> tuple[float, ...]:
        """As of the last sample; nothing after a long silence."""
        first, last = self._window[0], self._window[-1]
        passed_ns = last.t_ns - first.t_ns
        if not passed_ns or now_ns - last.t_ns > SILENCE_NS:
            return (0.0,) * len(last.bytes_by_plane)
        pairs = zip(first.bytes_by_plane, last.bytes_by_plane, strict=True)
        return tuple((new - old) * 8e9 / passed_ns for old, new in pairs)


def scene(clos: Clos) -> Message:
    """What stands, for somebody who draws it."""
    spec = clos.spec
    return {
        "type": "scene",
        "lab": spec.name,
        "planes": spec.planes,
        "t0_groups": spec.t0_groups,
        "hosts_per_t0": spec.hosts_per_t0,
        "t1s_per_plane": spec.t1s_per_plane,
        "host_rate_kbps": spec.rates.host // 1000,
        "time_dilation": spec.time_dilation,
        "evs_name_paths": spec.source_routed,
        **graph.to_dict(clos),
    }


class View:
    """A sink for records (`testbed.measure.recorder.Sink`), and a source of messages. Times in ns, one clock."""

    def __init__(self, clos: Clos, start_ns: int, cost: Callable[[Run, Fault], FaultCost] = faults.cost) -> None:
        """`cost` says what a fault has cost so far; of a recorded run that is known beforehand."""
        self._clos = clos
        self._cost = cost
        self._start_ns = start_ns
        self.run = self._empty_run([])
        self._meters: dict[str, _Meter] = {}
        self._states: dict[str, dict[int, str]] = {}  # flow -> EVs out of use, and how
        self._ev_counts: dict[str, dict[str, int]] = {}
        self._given_up: dict[str, set[tuple[int, str]]] = {}  # flow -> (plane, whose end) that its sender gave up
        self._last_loss_ns: dict[tuple[str, Cell], int] = {}
        self._new_events: list[RunEvent] = []
        self._faults_known: dict[int, Fault] = {}
        self._to_judge: deque[Fault] = deque()
        self._ticks = 0

    def set_flows(self, flows: Sequence[Flow]) -> None:
        """These flows are there now; what is known of others is forgotten."""
        if list(flows) == self.run.flows:
            return
        before, self.run = self.run, self._empty_run(list(flows))
        names = {flow.name for flow in flows}
        self.run.received = {name: one for name, one in before.received.items() if name in names}
        self.run.events = [one for one in before.events if getattr(one, "flow", None) in {None, *names}]
        self.run.faults = before.faults
        for gone in set(self._meters) - names:
            del self._meters[gone]
        self._states = {name: one for name, one in self._states.items() if name in names}
        self._given_up = {name: one for name, one in self._given_up.items() if name in names}
        self._last_loss_ns = {key: t_ns for key, t_ns in self._last_loss_ns.items() if key[0] in names}

    def received(self, flow: str, sample: Received) -> None:
        """A receiver's sample of a flow."""
        samples = self.run.received.setdefault(flow, [])
        if samples and sum(sample.bytes_by_plane) < sum(samples[-1].bytes_by_plane):
            samples.clear()  # of another queue pair
        samples.append(sample)
        if flow in self._meters:
            self._meters[flow].take(sample)
        else:
            self._meters[flow] = _Meter(sample)

    def ev_count(self, flow: str, sample: EvCount) -> None:
        """A sender's sample of a flow."""
        self._ev_counts[flow] = sample.states

    def event(self, event: RunEvent) -> None:
        """Something that happened."""
        self._new_events.append(event)
        match event:
            case EvChanged():
                states = self._states.setdefault(event.flow, {})
                if event.new in GOOD_STATES:
                    states.pop(event.ev, None)
                else:
                    states[event.ev] = event.new
            case PortChanged() if event.flow.startswith(f"{event.host}>"):
                planes = self._given_up.setdefault(event.flow, set())
                (planes.discard if event.up else planes.add)((event.plane, event.end))
            case PacketLost():
                self._last_loss_ns[event.flow, _cell(event.ev)] = event.t_ns

    def happened(self) -> list[Message]:
        """The events since the last call, in words."""
        events, self._new_events = self._new_events, []
        flows = {flow.name for flow in self.run.flows}
        known = [one for one in events if getattr(one, "flow", None) in {None, *flows}]
        self.run.events += known
        lines = [line for burst in _bursts(known) for line in story.tell(self.run, burst)]
        return [self.told(line.t_ns, line.topic, line.text) for line in lines]

    def faults(self, all_faults: Iterable[Fault], now_ns: int) -> list[Message]:
        """A message with the faults in force when they have changed since the last call, else nothing."""
        known = {fault.number: fault for fault in all_faults}
        if known == self._faults_known and self._ticks:
            return []
        for number, fault in known.items():
            before = self._faults_known.get(number)
            fresh = before is None and fault.until_ns is None and now_ns - fault.since_ns < MEMORY_NS
            ended = before is not None and before.until_ns is None and fault.until_ns is not None
            if fresh or ended:
                self._to_judge.append(fault)
        self._faults_known = known
        self.run.faults = list(known.values())
        return [{"type": "faults", "t": self._ms(now_ns), **self.faults_in_force(now_ns)}]

    def faults_in_force(self, now_ns: int) -> dict[str, Any]:
        """`active` [{number, kind, target, end, links, by, since}], and `shades`: [since, until], the latest ones."""
        remembered = [
            fault
            for fault in self._faults_known.values()
            if fault.until_ns is None or now_ns - fault.until_ns < MEMORY_NS
        ]
        return {
            "active": [
                {
                    "number": fault.number,
                    "kind": fault.kind,
                    "target": fault.target,
                    "end": fault.end,
                    "links": list(fault.links),
                    "by": fault.by,
                    "since": self._ms(fault.since_ns),
                }
                for fault in remembered
                if fault.until_ns is None
            ],
            "shades": [
                [self._ms(fault.since_ns), None if fault.until_ns is None else self._ms(fault.until_ns)]
                for fault in remembered[-MOST_SHADES:]
            ],
        }

    def judged(self, now_ns: int, bytes_wrong: int) -> list[Message]:
        """What each fault has cost, some time after it began, and again after its end."""
        messages = []
        self.run.stop_ns = now_ns
        while self._to_judge:
            fault = self._to_judge[0]
            if now_ns - (fault.since_ns if fault.until_ns is None else fault.until_ns) < SETTLED_NS:
                break
            self._to_judge.popleft()
            messages.append(self._verdict(fault, now_ns, bytes_wrong))
        return messages

    def tick(self, now_ns: int, loads: Sequence[int] | None = None, **more: Any) -> Message:
        """The state now. `loads`: of each link in percent of its rate, upwards and downwards in turn."""
        self._ticks += 1
        if self._ticks % _FORGET_EVERY == 0:
            self._forget(now_ns - MEMORY_NS)
        meters = {flow.name: self._meters[flow.name] for flow in self.run.flows if flow.name in self._meters}
        rates = {flow: meter.by_plane_bps(now_ns) for flow, meter in meters.items()}
        planes = [sum(by_plane[plane] for by_plane in rates.values()) for plane in range(self._clos.spec.planes)]
        return {
            "type": "tick",
            "t": self._ms(now_ns),
            "planes": [round(bps / 1000) for bps in planes],
            "flows": {flow: round(sum(by_plane) / 1000) for flow, by_plane in rates.items()},
            "paths": self._paths_out_of_use(),
            "loads": loads,
            **more,
        }

    def states(self, flow: str) -> dict[str, int]:
        """How many EVs of a flow's sender are in which state, at the last sample."""
        return self._ev_counts.get(flow, {})

    def losses(self, flow: str) -> dict[Cell, int]:
        """When (ms) a flow last lost a packet, by path."""
        return {cell: self._ms(t_ns) for (name, cell), t_ns in self._last_loss_ns.items() if name == flow}

    def told(self, t_ns: int, topic: str, text: str) -> Message:
        """An event in words."""
        return {"type": "event", "t": self._ms(t_ns), "topic": topic, "text": text.strip()}

    def _paths_out_of_use(self) -> dict[str, list[list[Any]]]:
        """flow -> [plane, T1, state] of each path that it does not use now; state `PLANE_DOWN` for a plane given up."""
        found: dict[str, list[list[Any]]] = {}
        for flow, states in self._states.items() if self._clos.spec.source_routed else ():
            cells = {_cell(ev): state for ev, state in states.items()}
            if cells:
                found[flow] = [[*cell, state] for cell, state in cells.items()]
        for flow, planes in self._given_up.items():
            for plane in {plane for plane, _ in planes}:
                cells_down = [[plane, t1, "PLANE_DOWN"] for t1 in range(self._clos.spec.t1s_per_plane)]
                found.setdefault(flow, []).extend(cells_down)
        return found

    def _verdict(self, fault: Fault, now_ns: int, bytes_wrong: int) -> Message:
        cost = self._cost(self.run, fault)
        what = f"{fault.kind} {fault.target}"
        if fault.until_ns is None:
            rerouted = "no packet met it" if cost.rerouted_s is None else f"rerouted in {cost.rerouted_s * 1e3:.0f} ms"
            lost = f"{cost.packets_lost} packet{'s' if cost.packets_lost != 1 else ''} lost"
            return self.told(now_ns, "verdict", f"{what}: {rerouted}, {lost}, {bytes_wrong} bytes wrong")
        back = "" if cost.restored_s is None else f", its paths were back in use after {cost.restored_s:.1f} s"
        return self.told(now_ns, "verdict", f"{what} is over{back}, {bytes_wrong} bytes wrong")

    def _forget(self, before_ns: int) -> None:
        for samples in self.run.received.values():
            del samples[: bisect_left(samples, before_ns, key=lambda sample: sample.t_ns)]
        self.run.events = [event for event in self.run.events if event.t_ns >= before_ns]

    def _empty_run(self, flows: list[Flow]) -> Run:
        return Run("live", self._clos.spec.name, 0, self._clos, flows, self._start_ns, self._start_ns, warmup_ns=0)

    def _ms(self, t_ns: int) -> int:
        return (t_ns - self._start_ns) // 1_000_000


def _bursts(events: Iterable[RunEvent]) -> list[list[RunEvent]]:
    """Events in order of time, cut where nothing happened for a while: what one line may speak of together."""
    bursts: list[list[RunEvent]] = []
    for event in sorted(events, key=lambda event: event.t_ns):
        if bursts and event.t_ns - bursts[-1][-1].t_ns < BURST_GAP_NS:
            bursts[-1].append(event)
        else:
            bursts.append([event])
    return bursts


def _cell(ev: int) -> Cell:
    return entropy.plane_of(ev), entropy.uplink_of(ev)
