"""A port whose sender can be paused: priority flow control (IEEE 802.1Qbb), which makes a fabric lossless.

A switch counts, for each link that brings it data, how much of that it still holds, whatever queue it waits in. Above
XOFF it pauses the data class of that link, at XON it lets it go on. The far end finishes the packet that it is sending,
and then sends no data at all: also not what would leave the switch by a queue that is empty. That is head-of-line
blocking, and nothing here is made for it; it spreads the same way from a full queue back to the hosts.

Two priorities are known, control and data, and only data is ever paused. A pause frame is sent as soon as the packet
that is on the line the other way has left; it is not subject to the faults of ports. Here a packet leaves when its turn
comes, not at a time that is known when it arrives: two events a hop, where `link` has one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from testbed.sim.events import EventList
from testbed.sim.link import CableSpec, Link
from testbed.sim.packet import SimPacket
from testbed.topology.labspec import NS_BITS
from testbed.topology.port_settings import PortSettings

PAUSE_FRAME_BYTES = 64


@dataclass(frozen=True, slots=True)
class Pfc:
    """Bytes of one link's data in the switch at its end: above `xoff_bytes` it is paused, at `xon_bytes` no more."""

    xoff_bytes: int
    xon_bytes: int


class LosslessLink(Link):
    """As Link; `reverse` is the other direction of the same cable, which has to be set before anything is sent.

    Of the switch at its far end it keeps what that holds of this link's data (`held_bytes`). `counts` has the pauses.
    """

    reverse: LosslessLink

    def __init__(
        self,
        port: PortSettings,
        cable: CableSpec,
        events: EventList,
        rng: Random,
        deliver: Callable[[SimPacket], None],
        *,
        pfc: Pfc,
    ) -> None:
        """See Link."""
        self.held_bytes = 0
        self._pfc = pfc
        self._queues: tuple[deque[SimPacket], deque[SimPacket]] = (deque(), deque())  # control, data
        self._queued_bytes = 0  # with the packet that is being sent
        self._sending: SimPacket | None = None
        self._sent_ns = 0  # when that will have left
        self._paused = False  # the far end has paused the data class
        self._asked_to_pause = False  # and that is what it asked for last
        self._waits_for_room: tuple[int, Callable[[], None]] | None = None
        super().__init__(port, cable, events, rng, deliver)

    @property
    def paused(self) -> bool:
        """Its data class stands still."""
        return self._paused

    def depth_bytes(self) -> int:
        """See Link; of the packet that is being sent all of it."""
        return self._queued_bytes

    def when_room(self, size_bytes: int, limit_bytes: int, action: Callable[..., None], *arguments: object) -> bool:
        """See Link: nobody knows how long a pause lasts, so it is done when a packet has left."""
        most_bytes = max(0, limit_bytes - size_bytes)
        if self._queued_bytes <= most_bytes:
            return True
        self._waits_for_room = most_bytes, partial(action, *arguments)
        return False

    def cut(self) -> None:
        """See Link: what waits is lost, and no pause outlives the carrier."""
        super().cut()
        for queue in self._queues:
            for packet in queue:
                self._release(packet)
            queue.clear()
        if self._sending is not None:
            self._release(self._sending)
        self._sending = None
        self._queued_bytes = 0
        self._paused = self._asked_to_pause = False
        self._tell_of_room()

    def _enqueue(self, packet: SimPacket) -> None:
        depth = self._queued_bytes
        if (depth or self._examines_all) and not self._takes(packet, depth):
            return
        self._queued_bytes += packet.size
        self._queues[not packet.control].append(packet)
        if not packet.control and packet.ingress is not None:
            packet.ingress.hold(packet.size)
        self._send_next()

    def hold(self, size_bytes: int) -> None:
        """The switch at the far end has taken so much of this link's data into its queues."""
        self.held_bytes += size_bytes
        if self.held_bytes > self._pfc.xoff_bytes and not self._asked_to_pause:
            self._ask(True)

    def let_go(self, size_bytes: int) -> None:
        """So much of it has left the switch."""
        self.held_bytes -= size_bytes
        if self.held_bytes <= self._pfc.xon_bytes and self._asked_to_pause:
            self._ask(False)

    def _ask(self, pause: bool) -> None:
        """The switch at the far end sends a pause frame back, or the one that ends the pause."""
        self._asked_to_pause = pause
        now, back = self._events.now, self.reverse
        took_ns = PAUSE_FRAME_BYTES * NS_BITS // back.port.rate_bps
        starts_ns = max(now, back._sent_ns) if back._sending is not None else now
        self.counts["paused" if pause else "resumed"] += 1
        self._events.at(starts_ns + took_ns + back._cable.delay_ns, self._hear, pause, self._life)

    def _hear(self, pause: bool, life: int) -> None:
        """The pause frame has come."""
        if life != self._life:
            return
        self._paused = pause
        self._send_next()

    def _send_next(self) -> None:
        """Begin with the next packet, if none is being sent: control first; data unless that is paused."""
        if self._sending is not None:
            return
        control, data = self._queues
        if control:
            packet = control.popleft()
        elif data and not self._paused:
            packet = data.popleft()
        else:
            return
        self._sending = packet
        self._sent_ns = self._events.now + packet.size * NS_BITS // self.port.rate_bps
        self._events.at(self._sent_ns, self._has_left, packet, self._life)

    def _has_left(self, packet: SimPacket, life: int) -> None:
        if life != self._life:
            return
        self._sending = None
        self._queued_bytes -= packet.size
        self._release(packet)
        packet.life = self._life
        if self._rough:
            self._over_a_rough_cable(packet, self._sent_ns)
        else:
            self._events.at(self._sent_ns + self._cable.delay_ns, self._arrive, packet)
        self._send_next()
        self._tell_of_room()

    def _release(self, packet: SimPacket) -> None:
        """A packet is no longer in this queue; whoever sent it here may send more."""
        if not packet.control and packet.ingress is not None:
            packet.ingress.let_go(packet.size)
            packet.ingress = None

    def _tell_of_room(self) -> None:
        if self._waits_for_room is not None and self._queued_bytes <= self._waits_for_room[0]:
            _, action = self._waits_for_room
            self._waits_for_room = None
            self._events.at(self._events.now, action)

    def _arrive(self, packet: SimPacket) -> None:
        packet.ingress = self
        super()._arrive(packet)
