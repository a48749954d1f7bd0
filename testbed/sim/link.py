"""One direction of a cable: a queue of two classes at its near end, a rate, a delay, and faults drawn from a seed.

The queue is that of a switch port in the lab: control first, data in a queue of bounded bytes. Faults befall a packet
when it leaves: lost, spoiled, doubled, held back. A link that was cut loses what is queued and what is on the way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from testbed.sim.events import Action, EventList
from testbed.topology.sizes import ETHERNET_HEADER_BYTES

_NS_BITS = 8 * 10**9  # ns a byte takes at 1 bit/s
_GUARDED_AT = 48  # from the inner addresses on the ICRC covers all but the UDP checksum and a reserved byte


@dataclass(frozen=True, slots=True)
class SimPacket:
    """A packet under way: its bytes from the outer IPv6 header on, its class, and the uSIDs of its outer address."""

    data: bytes
    control: bool
    usids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """What a link is like, beside its rate; probabilities are per packet, 0..1."""

    delay_ns: int = 500
    queue_bytes: int = 1 << 20  # of the data class; what does not fit is dropped
    loss: float = 0.0
    corrupt: float = 0.0  # one bit is flipped
    duplicate: float = 0.0
    reorder: float = 0.0  # held back by up to `reorder_ns`, so that later packets overtake it
    reorder_ns: int = 10_000


class Link:
    """A direction of a cable. `counts`: packets by what became of them."""

    def __init__(
        self,
        rate_bps: int,
        spec: LinkSpec,
        events: EventList,
        rng: Random,
        deliver: Callable[[SimPacket], None],
        on_space: Action | None = None,
    ) -> None:
        """`deliver` takes what arrives at the far end; `on_space` is called when a packet has left the queue."""
        self.rate_bps = rate_bps
        self.spec = spec
        self.counts: Counter[str] = Counter()
        self.dead = False  # loses every packet, and nobody is told
        self._events = events
        self._rng = rng
        self._deliver = deliver
        self._on_space = on_space
        self._control: deque[SimPacket] = deque()
        self._data: deque[SimPacket] = deque()
        self._data_bytes = 0
        self._busy = False
        self._cut = False
        self._life = 0  # packets of an earlier life do not arrive

    def has_room(self, size_bytes: int) -> bool:
        """Whether the data queue takes a packet of this size; an empty one takes any."""
        return not self._data or self._data_bytes + size_bytes <= self.spec.queue_bytes

    def send(self, packet: SimPacket) -> None:
        """Put a packet into its queue, or drop it."""
        if self._cut:
            self.counts["cut"] += 1
        elif packet.control:
            self._control.append(packet)
        elif self.has_room(len(packet.data)):
            self._data.append(packet)
            self._data_bytes += len(packet.data)
        else:
            self.counts["queue full"] += 1
        if not self._busy:
            self._serve()

    def cut(self) -> None:
        """Lose all that is queued or on the way, and all that comes, until `mend`."""
        self.counts["cut"] += len(self._control) + len(self._data)
        self._control.clear()
        self._data.clear()
        self._data_bytes = 0
        self._cut = True
        self._life += 1

    def mend(self) -> None:
        """The link carries packets again."""
        self._cut = False

    def _serve(self) -> None:
        queue = self._control or self._data
        self._busy = bool(queue)
        if queue:
            packet = queue.popleft()
            took_ns = (len(packet.data) + ETHERNET_HEADER_BYTES) * _NS_BITS // self.rate_bps
            self._events.after(took_ns, partial(self._leave, packet, self._life))

    def _leave(self, packet: SimPacket, life: int) -> None:
        if life == self._life:
            if not packet.control:
                self._data_bytes -= len(packet.data)
            self._propagate(packet)
        else:
            self.counts["cut"] += 1
        self._serve()
        if self._on_space is not None:
            self._on_space()

    def _propagate(self, packet: SimPacket) -> None:
        spec, rng = self.spec, self._rng
        if self.dead or rng.random() < spec.loss:
            self.counts["dead" if self.dead else "lost"] += 1
            return
        if rng.random() < spec.corrupt:
            self.counts["corrupted"] += 1
            packet = SimPacket(_flip_a_bit(packet.data, rng), packet.control, packet.usids)
        copies = 1
        if rng.random() < spec.duplicate:
            self.counts["duplicated"] += 1
            copies = 2
        for _ in range(copies):
            held_ns = 0
            if rng.random() < spec.reorder:
                self.counts["held back"] += 1
                held_ns = rng.randrange(spec.reorder_ns)
            self._events.after(spec.delay_ns + held_ns, partial(self._arrive, packet, self._life))

    def _arrive(self, packet: SimPacket, life: int) -> None:
        if life != self._life:
            self.counts["cut"] += 1
            return
        self.counts["delivered"] += 1
        self._deliver(packet)


def _flip_a_bit(data: bytes, rng: Random) -> bytes:
    """Flip one behind the IPv6 headers' changeable fields, which no checksum guards."""
    spoiled = bytearray(data)
    spoiled[rng.randrange(_GUARDED_AT, len(spoiled))] ^= 1 << rng.randrange(8)
    return bytes(spoiled)
