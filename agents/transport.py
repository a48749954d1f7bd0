"""The sans-IO interface that MRC and the RoCE baseline share (like aioquic, h2 and quinn-proto).

Nobody behind this interface has a socket, a clock or a global source of randomness. `now` is an int in
nanoseconds (CLOCK_MONOTONIC on the kernel lab, virtual in the simulator); randomness is a `random.Random` handed in.
The event loop, the simulator and the tests drive it alike:

    packets arrive            -> nic.receive(port, packet, now), for all that are there
    port may send / may not   -> nic.set_port_ready(port, ready)
    carrier changed           -> nic.set_port_up(port, up, now)
    timer due                 -> nic.handle_timer(now)          (next due: nic.next_timer())
    after each of these       -> for event in nic.events(): ...
                                 for datagram in nic.datagrams_to_send(now): send it

`datagrams_to_send` is a lazy iterator: each step chooses the next packet and its EV among the ports that are ready
at that moment, so that a path is chosen when the packet really leaves. When a port refuses (its queue is full), the
driver keeps that one datagram, calls `set_port_ready(port, False)` and goes on; it sends the kept one first when the
port takes packets again. Readiness concerns the data class only: a control datagram may be handed out for a port that
is not ready (its class has a queue of its own and goes first), so that an acknowledgement never waits behind data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agents.wire.packet import Packet

Buffer = bytes | bytearray | memoryview


class Datagram:
    """One packet to send: the NIC port (= plane), its traffic class, and its bytes from the outer IPv6 header on.

    The bytes come as buffers to be sent in one gathering write, so that a payload is not copied. They are stable
    until the message they belong to has completed.
    """

    __slots__ = ("buffers", "control", "port")

    def __init__(self, port: int, control: bool, buffers: tuple[Buffer, ...]) -> None:
        self.port = port
        self.control = control
        self.buffers = buffers


class QpStateError(Exception):
    """The queue pair is not in a state for this: not connected yet, or failed."""


@dataclass(slots=True, eq=False)  # of a plain subclass it would compare these two fields alone
class Event:
    """What a queue pair reports upwards; `now_ns` is when it knew. Nobody changes one."""

    qpn: int
    now_ns: int


class SendCompleted(Event):
    """A posted WRITE is acknowledged as a whole: its memory may be used again. (A plain class: one a message.)"""

    __slots__ = ("wr_id",)

    def __init__(self, qpn: int, now_ns: int, wr_id: int) -> None:
        self.qpn = qpn
        self.now_ns = now_ns
        self.wr_id = wr_id


class ImmediateReceived(Event):
    """A WRITE_WITH_IMM has wholly arrived; these come in the order in which they were sent. (As plain as the other.)"""

    __slots__ = ("byte_count", "immediate")

    def __init__(self, qpn: int, now_ns: int, immediate: int, byte_count: int) -> None:
        self.qpn = qpn
        self.now_ns = now_ns
        self.immediate = immediate
        self.byte_count = byte_count


@dataclass(slots=True)
class PacketLost(Event):
    """A packet is taken for lost and will go again on another EV.

    Where reports were the evidence ("overdue", "overtaken"), `rtt_ns` is how long a packet over that EV was expected to
    take there and back; one that is overdue was later than that by more than `window_ns`, the reorder window. Else 0.
    """

    psn: int
    ev: int
    sent_ns: int
    cause: str  # "overdue", "overtaken", "port-down", "timeout", "refused"; of RoCE: "out-of-sequence", "timeout"
    rtt_ns: int = 0
    window_ns: int = 0


@dataclass(slots=True)
class EvChanged(Event):
    """An EV came into use or went out of it (names of the states as in `mrc_ctl.h`).

    SKIP, which lasts for a turn of the rotation, is counted (`QpCounters.evs_skipped`) and not told.
    """

    ev: int
    old: str
    new: str
    why: str


@dataclass(slots=True)
class QpFailed(Event):
    """The queue pair is in error and will send nothing more; `refused`: the peer would not let it write there."""

    why: str
    refused: bool = False


@dataclass(slots=True)
class PortChanged(Event):
    """A plane was given up or taken back because a NIC port changed at one end."""

    port: int
    up: bool
    end: str  # "own" or "peer"


@dataclass(slots=True)
class PlaneDecided(Event):
    """Clustermapper's policy `denied` a plane of the NIC, `allowed` it again, or `kept` the last; with evidence."""

    plane: int
    action: str
    why: str
    probes: int
    lost: int


@dataclass(slots=True)
class ProbeAnswered(Event):
    """An EV probe that the NIC's user asked for came back; the qpn is that of the endpoint operations."""

    probe_id: int
    peer_host: int
    ev: int
    rtt_ns: int


class Write:
    """A WRITE to post: local bytes to remote (`address`, `rkey`); with `immediate` the far end learns of it."""

    __slots__ = ("address", "data", "immediate", "rkey", "wr_id")

    def __init__(self, wr_id: int, data: memoryview, address: int, rkey: int, immediate: int | None = None) -> None:
        self.wr_id = wr_id
        self.data = data
        self.address = address
        self.rkey = rkey
        self.immediate = immediate


@dataclass(slots=True)
class QpCounters:
    """What a queue pair has counted since it was made; all packets are data packets."""

    packets_sent: int = 0  # including retransmissions
    packets_retransmitted: int = 0
    packets_lost: int = 0  # taken for lost by the sender
    packets_trimmed: int = 0  # came back as a NACK: the fabric had cut their payload off
    packets_received: int = 0  # new ones
    packets_duplicate: int = 0  # arrived again
    bytes_acked: int = 0
    bytes_received: int = 0  # payload of new packets
    sacks_sent: int = 0  # of RoCE: acknowledgements
    sacks_received: int = 0
    probes_sent: int = 0
    cnps_sent: int = 0  # RoCE's congestion notifications
    cnps_received: int = 0
    nacks_sent: int = 0
    packets_marked: int = 0  # received with a congestion mark
    evs_skipped: int = 0  # times an EV became SKIP


class EvInfo(NamedTuple):
    """An EV as a queue pair sees it, for maps and reports."""

    ev: int
    plane: int
    uplink: int
    state: str
    turns: float  # in each round of the rotation, on average; 0: a backup, or retired
    rtt_ns: int  # last sample; 0: none yet


class QueuePair(ABC):
    """One end of a reliable connection over one transport. Made by the NIC; see the module for the calling rules."""

    qpn: int
    peer_host: int
    remote_qpn: int | None  # None: not connected
    start_psn: int  # what the peer has to be told
    counters: QpCounters
    refused: Counter[str]  # packets not taken, by reason
    bytes_received_by_port: list[int]  # payload of new packets, by the port they came in on

    @abstractmethod
    def connect(self, remote_qpn: int, remote_psn: int) -> None:
        """The far end: its number and its first PSN. Raises QpStateError when connected already."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Every posted WRITE is acknowledged."""

    @abstractmethod
    def ev_map(self) -> list[EvInfo]:
        """Every EV, backups included, by plane."""

    @abstractmethod
    def ev_counts(self) -> dict[str, int]:
        """How many EVs are in each state (those in none are left out)."""

    @abstractmethod
    def post(self, write: Write) -> None:
        """Queue a WRITE. Raises QpStateError when the queue pair cannot send."""

    @abstractmethod
    def receive(self, port: int, packet: Packet, now: int) -> None:
        """Take a decoded packet that came in on `port`."""

    @abstractmethod
    def poll_transmit(self, now: int, ready_ports: int) -> Datagram | None:
        """The next packet for a port of the bit mask `ready_ports`, or None when there is nothing to send on these."""

    @abstractmethod
    def set_port_up(self, port: int, up: bool, now: int) -> None:
        """The NIC's own port lost or regained carrier."""

    @abstractmethod
    def next_timer(self) -> int | None:
        """When `handle_timer` wants to be called next, in ns; None for never."""

    @abstractmethod
    def handle_timer(self, now: int) -> None:
        """Do what is due at `now`."""

    @abstractmethod
    def events(self) -> Iterator[Event]:
        """Drain the events, oldest first."""
