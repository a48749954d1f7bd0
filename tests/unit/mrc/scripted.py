"""Two NICs and a wire between them that follows a script: each packet goes where the test's rule says, and when.

A rule gets every packet and returns when it arrives, as a list of delays in ns: [] loses it, two entries double it.
What a switch does to the bytes of a packet (`trim`, `mark`) a test says by `alter`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, TypeVar

from agents.memory import Region
from agents.mrc.config import MrcConfig
from agents.mrc.ev_set import path_of
from agents.mrc.qp import MrcQueuePair
from agents.nic import Nic
from agents.nic_config import NicConfig
from agents.transport import Event, ImmediateReceived, SendCompleted, Write
from agents.wire import dscp, icrc
from agents.wire import ev as ev_format
from agents.wire.packet import Packet, parse
from agents.wire.packet import Write as WriteBody

US = 1000  # ns
ONE_WAY_NS = 3 * US
PACKET = 4096
CONTENT = Random(1).randbytes(64 * PACKET)

Rule = Callable[[int, Packet], list[int]]  # (sending host, packet) -> delays
EventT = TypeVar("EventT", bound=Event)


def on_time(host: int, packet: Packet) -> list[int]:
    """The rule of a wire without faults."""
    return [ONE_WAY_NS]


def trim(data: bytes, dscp_value: int = dscp.TRIMMED) -> bytes:
    """A WRITE as a switch forwards it when its queue is full: the headers alone, in the control class."""
    body = parse(data).body
    assert isinstance(body, WriteBody)
    size = len(data) - len(body.payload) - (-len(body.payload) & 3) - icrc.ICRC_BYTES
    cut = bytearray(data[:size])
    word = dscp.traffic_class(dscp_value) << 20 | int.from_bytes(cut[:4], "big") & ~(0xFF << 20)
    cut[:4] = word.to_bytes(4, "big")
    for at, length in ((4, size - 40), (44, size - 80), (84, size - 80)):  # outer, inner and UDP lengths
        cut[at : at + 2] = length.to_bytes(2, "big")
    return bytes(cut)


def mark(data: bytes) -> bytes:
    """A packet as a switch forwards it when its queue is filling: CE in the outer header."""
    marked = bytearray(data)
    marked[1] |= dscp.CE << 4
    return bytes(marked)


class ScriptedPair:
    """Host 0 and the last host, each with a NIC, and one queue pair between them."""

    def __init__(
        self, *, seed: int = 1, planes: int = 2, t1s: int = 4, same_rack: bool = False, **options: Any
    ) -> None:
        """`options` are settings of MrcConfig at both ends."""
        hosts_per_t0 = 2 if same_rack else 1
        shape = {"planes": planes, "t1s_per_plane": t1s, "hosts_per_t0": hosts_per_t0}
        shape["t0_groups"] = 1 if same_rack else 2
        self.nics = [Nic(NicConfig(host=host, **shape), Random(seed + host)) for host in range(2)]
        self.now = 0
        self.rule: Rule = on_time
        self.alter: Callable[[int, Packet, bytes], bytes] = lambda host, packet, data: data
        self.seen: list[tuple[int, Packet]] = []  # every packet that was handed to the wire, and by whom
        self.events: list[tuple[int, Event]] = []  # every event, and whose
        self._arrivals: list[tuple[int, int, int, int, bytes]] = []  # heap of (when, serial, host, port, bytes)
        self._serial = count()
        self.qps = [self._queue_pair(self.nics[host], 1 - host, options) for host in range(2)]
        for host in range(2):
            far = self.qps[1 - host]
            self.nics[host].connect(self.qps[host].qpn, far.qpn, far.start_psn)

    def _queue_pair(self, nic: Nic, peer: int, options: dict[str, Any]) -> MrcQueuePair:
        config = MrcConfig.dilated(1, **{"probe_interval_ns": 50 * US, **options})
        return nic.create_qp(peer, options=config)

    def post(
        self, data: bytes, region: Region, *, offset: int = 0, immediate: int | None = None, wr_id: int = 0
    ) -> None:
        """Host 0 writes to a region of host 1."""
        self.qps[0].post(Write(wr_id, memoryview(data), region.address + offset, region.rkey, immediate))

    def run(self, for_ns: int = 10_000 * US) -> None:
        """Let everything happen that happens within that time."""
        end = self.now + for_ns
        self._settle()
        while True:
            due = [timer for nic in self.nics if (timer := nic.next_timer()) is not None]
            if self._arrivals:
                due.append(self._arrivals[0][0])
            if not due or min(due) > end:
                break
            self.now = max(self.now, min(due))
            while self._arrivals and self._arrivals[0][0] <= self.now:
                _, _, host, port, data = heapq.heappop(self._arrivals)
                self.nics[host].receive(port, data, self.now)
            for nic in self.nics:
                timer = nic.next_timer()
                if timer is not None and timer <= self.now:
                    nic.handle_timer(self.now)
            self._settle()
        self.now = end

    def _settle(self) -> None:
        for host, nic in enumerate(self.nics):
            self.events += [(host, event) for event in nic.events()]
            for datagram in nic.datagrams_to_send(self.now):
                data = b"".join(datagram.buffers)
                packet = parse(data)
                self.seen.append((host, packet))
                delays = self.rule(host, packet)
                data = self.alter(host, packet, data)
                for delay_ns in delays:
                    when = self.now + delay_ns
                    heapq.heappush(self._arrivals, (when, next(self._serial), 1 - host, datagram.port, data))

    def of_kind(self, kind: type[EventT], host: int = 0) -> list[EventT]:
        """The events of one kind at one host, oldest first."""
        return [event for whose, event in self.events if whose == host and isinstance(event, kind)]

    def sent(self, kind: type, host: int = 0) -> list[Packet]:
        """The packets with this kind of body that a host has sent."""
        return [packet for whose, packet in self.seen if whose == host and isinstance(packet.body, kind)]


def dead_path(plane: int, uplink: int) -> Rule:
    """One path loses everything, both ways."""
    path = path_of(ev_format.make(plane, uplink))
    return lambda host, packet: [] if path_of(packet.ev) == path else [ONE_WAY_NS]


def lose_once(*numbers: int) -> Rule:
    """Of all WRITE packets in the order of sending, lose these."""
    serial = count()

    def rule(host: int, packet: Packet) -> list[int]:
        return [] if isinstance(packet.body, WriteBody) and next(serial) in numbers else [ONE_WAY_NS]

    return rule


def unequal_paths(seed: int) -> Rule:
    """Each path keeps its packets in order, and has a delay of its own: up to four times that of another."""
    rng = Random(seed)
    delays = [ONE_WAY_NS + rng.randrange(10 * US) for _ in range(1 << 11)]
    return lambda host, packet: [delays[path_of(packet.ev)]]


def one_by_one() -> Rule:
    """Packets arrive a microsecond after one another."""
    serial = count()
    return lambda host, packet: [ONE_WAY_NS + (next(serial) * US if host == 0 else 0)]


def transfer(pair: ScriptedPair, size: int = len(CONTENT), *, for_ns: int = 10_000 * US) -> None:
    """Host 0 writes `size` bytes, and they arrive once, and right."""
    region = pair.nics[1].register_memory(size)
    pair.post(CONTENT[:size], region, immediate=7)
    pair.run(for_ns)
    assert bytes(region.buffer) == CONTENT[:size]
    assert len(pair.of_kind(SendCompleted)) == 1
    assert [event.byte_count for event in pair.of_kind(ImmediateReceived, host=1)] == [size]


def transfer_again(pair: ScriptedPair) -> None:
    """Another message, to a region of its own; whatever happened before."""
    region = pair.nics[1].register_memory(len(CONTENT))
    pair.post(CONTENT, region)
    pair.run()
    assert bytes(region.buffer) == CONTENT and pair.qps[0].idle


def dead_plane(plane: int) -> Rule:
    """All paths of a plane lose everything, both ways."""
    return lambda host, packet: [] if ev_format.plane_of(packet.ev) == plane else [ONE_WAY_NS]
