"""A switch's or NIC's port and the cable behind it, one direction: the port of `port.bpf.c` in virtual time.

    packet -> faults of the port -> trim | drop -> mark -> queue: control before data -> cable -> far end

Follows the MRC paper, section 4 (trimming, no ECN on the last hop), and RED as DCQCN uses it (no mark up to Kmin,
rising to Pmax at Kmax, always above). All is decided when a packet comes to the port, when it will leave too: one
event a hop. A control packet overtakes all data but the packet that is being sent. Data that has been there before
keeps its time, and what comes later waits for both, so that the line carries a little more than its rate for a moment.

A cable can spoil, double and hold packets back (tests of the transport use that), and be cut: then it loses what is in
its queue or on the way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from testbed.sim.events import EventList
from testbed.sim.packet import SimPacket
from testbed.topology.port_settings import PortSettings
from testbed.topology.port_stamps import PortStamps

_NS_BITS = 8 * 10**9  # ns a byte takes at 1 bit/s
_ANY_PACKET_BYTES = 10_000  # no packet is longer
_GUARDED_AT = 48  # from the inner addresses on the ICRC covers all but the UDP checksum and a reserved byte


@dataclass(frozen=True, slots=True, kw_only=True)
class CableSpec:
    """What a cable is like; probabilities are per packet, 0..1."""

    delay_ns: int = 500
    corrupt: float = 0.0  # one bit is flipped
    duplicate: float = 0.0
    reorder: float = 0.0  # held back by up to `reorder_ns`, so that later packets overtake it
    reorder_ns: int = 10_000

    @property
    def rough(self) -> bool:
        """Anything but a delay."""
        return bool(self.corrupt or self.duplicate or self.reorder)


class Link:
    """A port with its cable. `counts`: packets by what became of them."""

    def __init__(
        self,
        port: PortSettings,
        cable: CableSpec,
        events: EventList,
        rng: Random,
        deliver: Callable[[SimPacket], None],
    ) -> None:
        """`deliver` takes what arrives at the far end."""
        self.counts: Counter[str] = Counter()
        self.stamps = PortStamps()
        self._first_lost_ns: dict[tuple[int, int, int], int] = {}  # by hosts and EV
        self._made_of = self._cable = cable
        self._rough = cable.rough
        self._events = events
        self._rng = rng
        self._deliver = deliver
        self._free_ns = 0  # when all that waits now will have left
        self._control_free_ns = 0  # the same of control alone
        self._data_ends: deque[int] = deque()  # when each data packet that waits will have left
        self._cut = False
        self._faulty = self._examines_all = False
        self._life = 0  # packets of an earlier life do not arrive
        self.set_port(port)

    def set_port(self, port: PortSettings) -> None:
        """Other settings from the next packet on; what waits leaves at the old rate."""
        self.port = port
        self._faulty = bool(port.loss or port.match_loss or port.corrupt or port.black_hole != "none")
        # Usually a packet that finds no other waiting is neither marked nor trimmed.
        marks_all = port.ecn and not port.kmax_bytes
        trims_all = port.trimming and port.trim_at_bytes < _ANY_PACKET_BYTES
        self._examines_all = marks_all or trims_all or port.limit_bytes < _ANY_PACKET_BYTES

    def noted(self) -> PortStamps:
        """What it noted of faults since `stamps` was set back."""
        if not self.stamps.first_drop_ns:
            return self.stamps
        return replace(self.stamps, first_lost=tuple(sorted((*key, ns) for key, ns in self._first_lost_ns.items())))

    def set_delay(self, delay_ns: int, jitter_ns: int) -> None:
        """The cable takes so much longer, more or less by up to the jitter; 0 for both: as it was made."""
        made = self._made_of
        self._cable = replace(made, delay_ns=made.delay_ns + max(0, delay_ns - jitter_ns))
        if jitter_ns:
            self._cable = replace(self._cable, reorder=1.0, reorder_ns=2 * jitter_ns)
        self._rough = self._cable.rough

    def depth_bytes(self) -> int:
        """Bytes in the queue, with what is left of the packet that is being sent."""
        waiting_ns = self._free_ns - self._events.now
        return waiting_ns * self.port.rate_bps // _NS_BITS if waiting_ns > 0 else 0

    def room_at_ns(self, size_bytes: int, limit_bytes: int) -> int:
        """When a packet of this size will fit into `limit_bytes` of queue; a time not after now when it does."""
        others_bytes = max(0, limit_bytes - size_bytes)
        return self._free_ns - others_bytes * _NS_BITS // self.port.rate_bps

    def when_room(self, size_bytes: int, limit_bytes: int, action: Callable[..., None], *arguments: object) -> bool:
        """Whether a packet of this size fits into `limit_bytes` of queue now; if not, `action` is done when it does."""
        room_ns = self.room_at_ns(size_bytes, limit_bytes)
        if room_ns <= self._events.now:
            return True
        self._events.at(room_ns, action, *arguments)
        return False

    def send(self, packet: SimPacket) -> None:
        """Put a packet into its queue, or drop it."""
        if self._cut:
            self.counts["cut"] += 1
            self._note(packet, dropped=False)  # a port of the kernel sends into a link without carrier, too
            return
        if self._faulty:
            fate = self._fault(packet)
            self._note(packet, dropped=bool(fate))
            if fate:
                self.counts[fate] += 1
                return
        self._enqueue(packet)

    def _enqueue(self, packet: SimPacket) -> None:
        """Put it into the queue, unless that is full, and decide when it leaves."""
        port, now = self.port, self._events.now
        rate_bps = port.rate_bps
        free_ns = self._free_ns
        depth = (free_ns - now) * rate_bps // _NS_BITS if free_ns > now else 0
        if (depth or self._examines_all) and not self._takes(packet, depth):
            return
        if free_ns < now:
            free_ns = now
        took_ns = packet.size * _NS_BITS // rate_bps
        self._free_ns = free_ns + took_ns
        if packet.control:
            leaves_ns = self._control_start(now) + took_ns
            self._control_free_ns = leaves_ns
        else:
            leaves_ns = self._free_ns
            ends = self._data_ends
            while ends and ends[0] <= now:
                ends.popleft()
            ends.append(leaves_ns)
        packet.life = self._life
        if self._rough:
            self._over_a_rough_cable(packet, leaves_ns)
        else:
            self._events.at(leaves_ns + self._cable.delay_ns, self._arrive, packet)

    @property
    def up(self) -> bool:
        """Not cut."""
        return not self._cut

    def cut(self) -> None:
        """Lose all that is queued or on the way, and all that comes, until `mend`."""
        self._free_ns = self._control_free_ns = self._events.now
        self._data_ends.clear()
        self._cut = True
        self._life += 1

    def mend(self) -> None:
        """The link carries packets again."""
        self._cut = False

    def _fault(self, packet: SimPacket) -> str:
        """What the port's faults do to a packet; empty for nothing."""
        port, draw = self.port, self._rng.random
        if port.black_hole == "all" or (port.black_hole == "data" and not packet.control):
            return "black hole"
        if port.loss and draw() < port.loss:
            return "lost"
        if port.match_loss and self._matches(packet) and draw() < port.match_loss:
            return "lost"
        if port.corrupt and draw() < port.corrupt and packet.corrupt(port.corrupt_unseen):
            self.counts["corrupted"] += 1
        return ""

    def _note(self, packet: SimPacket, *, dropped: bool) -> None:
        now, stamps = self._events.now, self.stamps
        if not packet.probes:
            stamps = replace(stamps, last_use_ns=now)
        if dropped:
            if not stamps.first_drop_ns:
                stamps = replace(stamps, first_drop_ns=now)
                self._first_lost_ns.clear()
            if not packet.probes:
                first_ns = self._first_lost_ns.setdefault(packet.hosts_and_ev, now)
                stamps = replace(stamps, longest_ns=max(stamps.longest_ns, now - first_ns))
            if packet.writes and not packet.control:
                stamps = replace(
                    stamps,
                    lost_data=stamps.lost_data + 1,
                    first_lost_data_ns=stamps.first_lost_data_ns or now,
                    last_lost_data_ns=now,
                )
        self.stamps = stamps

    def _matches(self, packet: SimPacket) -> bool:
        if self.port.match_kind == "ev":
            return packet.ev == self.port.match_value
        return self.port.match_kind == "usid" and self.port.match_value in packet.usids()

    def _takes(self, packet: SimPacket, depth: int) -> bool:
        """Whether a packet that finds so many bytes waiting gets into the queue, be it trimmed or marked."""
        port = self.port
        if not packet.control:
            if port.trimming and depth + packet.size > port.trim_at_bytes and packet.trim(port.last_hop):
                self.counts["trimmed"] += 1
            elif port.ecn and packet.ect and self._marks(depth):
                packet.marked = True
                self.counts["marked"] += 1
        extra_bytes = port.control_extra_bytes if packet.control else 0
        if depth + packet.size > port.limit_bytes + extra_bytes:
            self.counts["queue full"] += 1
            return False
        return True

    def _marks(self, depth: int) -> bool:
        port = self.port
        if depth >= port.kmax_bytes:
            return True
        if depth <= port.kmin_bytes:
            return False
        return self._rng.random() < port.pmax * (depth - port.kmin_bytes) / (port.kmax_bytes - port.kmin_bytes)

    def _control_start(self, now: int) -> int:
        """Behind the control that waits; when none does, behind the data packet that is being sent."""
        if self._control_free_ns > now:
            return self._control_free_ns
        return next((end_ns for end_ns in self._data_ends if end_ns > now), now)

    def _over_a_rough_cable(self, packet: SimPacket, leaves_ns: int) -> None:
        cable, rng = self._cable, self._rng
        if rng.random() < cable.corrupt:
            self.counts["corrupted"] += 1
            packet.data = _flip_a_bit(packet.data, rng)
        packets = [packet]
        if rng.random() < cable.duplicate:
            self.counts["duplicated"] += 1
            packets.append(packet.twin())
        for one in packets:
            held_ns = 0
            if rng.random() < cable.reorder:
                self.counts["held back"] += 1
                held_ns = rng.randrange(cable.reorder_ns)
            self._events.at(leaves_ns + cable.delay_ns + held_ns, self._arrive, one)

    def _arrive(self, packet: SimPacket) -> None:
        if packet.life != self._life:
            self.counts["cut"] += 1
            return
        self.counts["delivered"] += 1
        self._deliver(packet)


def _flip_a_bit(data: bytes, rng: Random) -> bytes:
    """Flip one behind the IPv6 headers' changeable fields, which no checksum guards."""
    spoiled = bytearray(data)
    spoiled[rng.randrange(_GUARDED_AT, len(spoiled))] ^= 1 << rng.randrange(8)
    return bytes(spoiled)
