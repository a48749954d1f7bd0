"""A recorded run as data: flows, samples, events, faults as they really happened, and the machine.

The runner fills it, everything else (`series`, `faults`, `phases`, the expectations, the report) only reads it, so that
each of those can be tested with a run written by hand. All times are CLOCK_MONOTONIC in ns (one clock for all
namespaces, so that an agent's event and a fault can be compared), or virtual ones when the run was simulated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from agents.wire import ev as entropy
from testbed.measure.jobs import JobResult
from testbed.measure.ports import PortCount
from testbed.topology.clos import Clos
from testbed.topology.port_stamps import PortStamps

GOOD_STATES = frozenset({"GOOD", "SKIP"})  # of an EV that carries traffic; every other state is out of use


@dataclass(frozen=True, slots=True)
class Flow:
    """Traffic from `src` to `dst`; `offered_bps` is payload, `full` that the sender goes as fast as it can.

    `workload` is the number of the scenario's entry that it comes from; `qps` queue pairs share the flow.
    """

    src: str
    dst: str
    offered_bps: float
    full: bool = False
    workload: int = 0
    qps: int = 1

    @property
    def name(self) -> str:
        """`h0>h4`: what samples and events call it."""
        return f"{self.src}>{self.dst}"


@dataclass(frozen=True, slots=True)
class Received:
    """Payload bytes that the receiver of a flow has got since its start, per plane (cumulative)."""

    t_ns: int
    bytes_by_plane: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EvCount:
    """How many EVs of a flow's sender are in which state."""

    t_ns: int
    states: dict[str, int]


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened at `t_ns`."""

    t_ns: int


@dataclass(frozen=True, slots=True)
class PacketLost(RunEvent):
    """A sender took a packet of `flow`, sent at `sent_ns` on `ev`, for lost; `agents.transport` says more."""

    flow: str
    ev: int
    psn: int
    sent_ns: int
    cause: str
    rtt_ns: int = 0
    window_ns: int = 0


@dataclass(frozen=True, slots=True)
class EvChanged(RunEvent):
    """An EV of a flow's sender changed its state."""

    flow: str
    ev: int
    old: str
    new: str
    why: str


@dataclass(frozen=True, slots=True)
class CarrierChanged(RunEvent):
    """The NIC of `host` saw the carrier of a port go or come back."""

    host: str
    plane: int
    up: bool


@dataclass(frozen=True, slots=True)
class PlaneDecided(RunEvent):
    """Clustermapper's policy at `host` has `denied` a plane, `allowed` it again or `kept` the last; why."""

    host: str
    plane: int
    action: str
    why: str
    probes: int
    lost: int

    @property
    def words(self) -> str:
        """`h1 has denied plane 2: ... (7 of 120)`."""
        return f"{self.host} has {self.action} plane {self.plane}: {self.why} ({self.lost} of {self.probes} lost)"


@dataclass(frozen=True, slots=True)
class PortChanged(RunEvent):
    """At `host` a queue pair of `flow` gave a plane up, or took it back, because of its `own` port or its `peer`'s."""

    host: str
    plane: int
    up: bool
    end: str
    flow: str


@dataclass(frozen=True, slots=True)
class QpFailed(RunEvent):
    """A queue pair of `flow` went into error."""

    flow: str
    why: str


@dataclass(frozen=True, slots=True)
class FaultActed(RunEvent):
    """A fault was put in (`active`) or undone; the act began at `t_ns` and was done at `done_ns`.

    `due_ns` is when the timeline wanted it, None for what a person did.
    """

    fault: int
    kind: str
    target: str
    end: str
    active: bool
    done_ns: int
    due_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a port noted of a fault until it was undone; `dead`: nothing that it was given arrived (`kinds.watched`)."""

    port: str  # by the way it sends: `p0t0-1>p0t1-3`
    dead: bool
    stamps: PortStamps


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as it really was: `since_ns` before the first act, `until_ns` after the last act of its undoing.

    `down_ns` and `up_ns` are the other ends of these two acts. `until_ns` and `up_ns` are None while it lasts.
    `due_ns` and `undo_due_ns` are when the timeline wanted them. `by` is `run` (of the scenario) or `hand`. `end` is
    empty for kinds that have none, `links` are all that the fault touches, `damage` what it leaves of links or of a
    direction of them (for the capacity oracle). `options` has the kind's options with their values; `entry` is the
    number of the scenario's entry that it comes from. `seen` is what the fabric's ports noted, once it is undone.
    """

    number: int
    kind: str
    target: str
    end: str
    since_ns: int
    down_ns: int
    up_ns: int | None = None
    until_ns: int | None = None
    by: str = "run"
    links: tuple[str, ...] = ()
    damage: tuple[tuple[str, float], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    due_ns: int | None = None
    undo_due_ns: int | None = None
    entry: int | None = None
    seen: tuple[Seen, ...] = ()


def at_end(end: str) -> str:
    """` at its near end`, ` at both ends`, for people; empty for faults of kinds without ends."""
    return "" if not end else " at both ends" if end == "both" else f" at its {end} end"


@dataclass(slots=True)
class FlowTotals:
    """What both ends of a flow counted when it had drained. Packets are data packets, at the sender."""

    bytes_sent: int = 0
    bytes_delivered: int = 0  # compared with what was sent, and equal
    bytes_wrong: int = 0
    messages_sent: int = 0
    messages_delivered: int = 0
    packets_sent: int = 0
    packets_retransmitted: int = 0
    packets_lost: int = 0
    packets_duplicate: int = 0  # at the receiver
    completions: Counter[int] = field(default_factory=Counter)  # messages by ns from posting to completion, rounded

    def add_sender(self, qp: dict[str, int]) -> None:
        """What the sender's queue pair counted, by name."""
        for name in ("packets_sent", "packets_retransmitted", "packets_lost"):
            setattr(self, name, getattr(self, name) + qp[name])

    def add_packets(self, other: FlowTotals) -> None:
        """The packets of another part of the flow."""
        for name in ("packets_sent", "packets_retransmitted", "packets_lost", "packets_duplicate"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def add_receiver(self, qp: dict[str, int]) -> None:
        """The same of the receiver's."""
        self.packets_duplicate += qp["packets_duplicate"]


@dataclass(slots=True)
class Machine:
    """What the machine itself did during the run."""

    cpu_fraction: float = 0.0  # of all cores, over the run
    softnet_drops: int = 0
    socket_drops: int = 0
    late_timers: int = 0  # of all agents
    agents: int = 0
    events_dropped: int = 0  # events that agents could not keep until they were collected


@dataclass
class Run:
    """Everything that was recorded. `start_ns` is when traffic began, `stop_ns` when the senders were to stop.

    The measured time begins `warmup_ns` after the start. `interrupted` says why the run ended early, if it did.
    `speedup` is how much faster than on the lab everything happened: the time dilation when real rates were simulated.
    """

    scenario: str
    lab: str
    seed: int
    clos: Clos
    flows: list[Flow]
    start_ns: int
    stop_ns: int
    warmup_ns: int
    faults: list[Fault] = field(default_factory=list)
    received: dict[str, list[Received]] = field(default_factory=dict)
    ev_counts: dict[str, list[EvCount]] = field(default_factory=dict)
    events: list[RunEvent] = field(default_factory=list)
    totals: dict[str, FlowTotals] = field(default_factory=dict)
    port_bytes: list[tuple[int, dict[str, int]]] = field(default_factory=list)  # (when, bytes since the time before)
    ports: dict[str, PortCount] = field(default_factory=dict)  # what the ports counted, where they do
    jobs: list[JobResult] = field(default_factory=list)
    machine: Machine = field(default_factory=Machine)
    round_trips: list[tuple[int, int]] = field(default_factory=list)  # (when, median of all EVs' last samples, ns)
    interrupted: str = ""
    speedup: float = 1.0
    virtual: bool = False  # in virtual time: no machine took part

    @property
    def measured_from_ns(self) -> int:
        """The end of the warm-up."""
        return self.start_ns + self.warmup_ns

    @property
    def planes(self) -> int:
        """Planes of the lab."""
        return self.clos.spec.planes

    def of_lab(self, duration_ns: int) -> int:
        """What takes so long on the lab takes this long in this run."""
        return round(duration_ns / self.speedup)

    def of_flows(self, names: Collection[str]) -> Run:
        """The same run as these flows saw it: their samples, totals and events, and all faults."""
        return replace(
            self,
            flows=[flow for flow in self.flows if flow.name in names],
            totals={name: totals for name, totals in self.totals.items() if name in names},
            events=[event for event in self.events if getattr(event, "flow", None) in (None, *names)],
        )

    def seconds(self, t_ns: int) -> float:
        """Seconds since the start of the traffic."""
        return (t_ns - self.start_ns) / 1e9

    def losses(self) -> Iterator[PacketLost]:
        """The packets taken for lost."""
        return (event for event in self.events if isinstance(event, PacketLost))

    def ev_changes(self) -> Iterator[EvChanged]:
        """The changes of EV states."""
        return (event for event in self.events if isinstance(event, EvChanged))

    def port_changes(self) -> Iterator[PortChanged]:
        """The planes that queue pairs gave up and took back."""
        return (event for event in self.events if isinstance(event, PortChanged))

    def nic_link_of(self, change: PortChanged) -> str:
        """The link of the NIC port that changed: the host's own on that plane, or its peer's."""
        flow = self._flows_by_name[change.flow]
        peer = flow.dst if change.host == flow.src else flow.src
        owner = peer if change.end == "peer" else change.host
        return next(link.name for _, link in self.clos.ports(owner) if link.plane == change.plane)

    def hosts_of(self, flow: str) -> tuple[int, int]:
        """The numbers of the hosts that a flow goes from and to."""
        ends = self._flows_by_name[flow]
        return self.clos.nodes[ends.src].index, self.clos.nodes[ends.dst].index

    @cached_property
    def _flows_by_name(self) -> dict[str, Flow]:
        return {flow.name: flow for flow in self.flows}

    @cached_property
    def _paths(self) -> dict[tuple[str, int, int], frozenset[str]]:
        return {}

    def path_of(self, flow: str, ev: int) -> frozenset[str]:
        """The links that a flow's packets cross on an EV; where the fabric hashes, all that they may cross."""
        plane, t1 = entropy.plane_of(ev), entropy.uplink_of(ev)
        key = (flow, plane, t1)
        if key not in self._paths:
            src, dst = self.hosts_of(flow)
            t1s = [t1] if self.clos.spec.source_routed else range(self.clos.spec.t1s_per_plane)
            self._paths[key] = frozenset(link for one in t1s for link in self.clos.path_links(src, dst, plane, one))
        return self._paths[key]

    def flows_over(self, link: str) -> list[Flow]:
        """The flows that have a path over a link."""
        plane = self.clos.links[link].plane
        t1s = range(self.clos.spec.t1s_per_plane)
        return [
            flow for flow in self.flows if any(link in self.path_of(flow.name, entropy.make(plane, t1)) for t1 in t1s)
        ]
