"""Messages between two ranks over one or several queue pairs: sent whole, received whole, in order, both ways.

A message is split into as many parts as there are lanes (queue pairs), each a WRITE_WITH_IMM whose immediate is the
message's number, into a ring of slots in the receiver's region. A slot is used again when its last part has completed:
the driver delivers a receiver's events before it sends (see `agents.rawio.loop`), so the receiver has copied the part
by then. More messages wait at the sender.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from agents.transport import Event, ImmediateReceived, QueuePair, SendCompleted, Write
from agents.workloads.write_bw import Target

SLOTS = 2
_IMMEDIATE_MASK = 0xFFFF_FFFF


def region_bytes(message_bytes: int, lanes: int) -> int:
    """What each lane's region has to have at least, for messages of up to so many bytes."""
    return SLOTS * max(1, -(-message_bytes // lanes))


class Lane:
    """One queue pair of a channel, the own region that the peer writes to over it, and the peer's."""

    __slots__ = ("qp", "region", "target")

    def __init__(self, qp: QueuePair, region: memoryview, target: Target) -> None:
        self.qp = qp
        self.region = region
        self.target = target


class Channel:
    """This end of it. `messages_unexpected` counts parts that came with another number than the next one's."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.messages_unexpected = 0
        self.bytes_sent = 0
        self._lanes = {lane.qp.qpn: lane for lane in lanes}
        self._waiting: deque[memoryview] = deque()
        self._posted = 0  # messages
        self._completed = dict.fromkeys(self._lanes, 0)  # parts, by lane; they complete in order
        self._arrived: dict[int, deque[bytes]] = {qpn: deque() for qpn in self._lanes}  # parts, by lane
        self._taken = dict.fromkeys(self._lanes, 0)  # parts that have arrived, by lane

    @property
    def qpns(self) -> list[int]:
        """The queue pairs of this end."""
        return list(self._lanes)

    @property
    def idle(self) -> bool:
        """Everything sent is acknowledged."""
        return not self._waiting and min(self._completed.values()) == self._posted

    def send(self, message: bytes | memoryview) -> None:
        """Send a message; it has to stay as it is. Raises QpStateError, ValueError when it does not fit a slot."""
        part_bytes = -(-len(message) // len(self._lanes))
        for lane in self._lanes.values():
            if part_bytes > lane.target.size_bytes // SLOTS:
                raise ValueError(f"{len(message)} bytes do not fit the slots of a region of {lane.target.size_bytes}")
        self._waiting.append(memoryview(message))
        self._fill()

    def receive(self) -> bytes | None:
        """The next message, when all of it has arrived."""
        if not all(self._arrived.values()):
            return None
        return b"".join([parts.popleft() for parts in self._arrived.values()])

    def on_event(self, event: Event) -> None:
        """Take an event of one of the lanes."""
        if isinstance(event, SendCompleted):
            self._completed[event.qpn] += 1
            self._fill()
        elif isinstance(event, ImmediateReceived):
            self._take(event)

    def _take(self, event: ImmediateReceived) -> None:
        number = self._taken[event.qpn]
        if event.immediate != number & _IMMEDIATE_MASK:
            self.messages_unexpected += 1
        self._taken[event.qpn] = number + 1
        region = self._lanes[event.qpn].region
        start = number % SLOTS * (len(region) // SLOTS)
        self._arrived[event.qpn].append(bytes(region[start : start + event.byte_count]))

    def _fill(self) -> None:
        while self._waiting and self._posted < min(self._completed.values()) + SLOTS:
            message = self._waiting.popleft()
            part_bytes = -(-len(message) // len(self._lanes))
            for place, lane in enumerate(self._lanes.values()):
                part = message[place * part_bytes : (place + 1) * part_bytes]
                slot = self._posted % SLOTS * (lane.target.size_bytes // SLOTS)
                immediate = self._posted & _IMMEDIATE_MASK
                lane.qp.post(
                    Write(self._posted, part, lane.target.address + slot, lane.target.rkey, immediate=immediate)
                )
            self._posted += 1
            self.bytes_sent += len(message)
