"""write_bw: a stream of WRITE_WITH_IMM messages into a ring of slots at the receiver, each byte of it checked there.

Message n (its immediate) goes to slot n modulo the number of slots, which both ends know from the size of the region
and of a message. The sender uses a slot again when its last message has completed; the driver delivers a receiver's
events before it sends (see `agents.rawio.loop`), so the receiver has checked and wiped the slot by then.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agents.transport import (
    Event,
    ImmediateReceived,
    QpFailed,
    QpStateError,
    QueuePair,
    SendCompleted,
    Write,
)
from agents.workloads.base import Workload
from agents.workloads.pattern import Pattern
from agents.workloads.times import Times

_NS_PER_S = 1_000_000_000
_BITS_PER_BYTE = 8
_IMMEDIATE_MASK = 0xFFFF_FFFF  # an immediate has 32 bits, message numbers have no end
_IMMEDIATE_HALF = 1 << 31

CATCH_UP_NS = 50_000_000  # a sender that was held up longer than this gives the rest of its offered load up


def slot_count(region_bytes: int, message_bytes: int) -> int:
    """How many messages fit into a region. Raises ValueError when none does."""
    if message_bytes < 1 or region_bytes < message_bytes:
        raise ValueError(f"a region of {region_bytes} bytes has no room for a message of {message_bytes} bytes")
    return region_bytes // message_bytes


@dataclass(frozen=True, slots=True)
class Target:
    """The receiver's region, as its sender knows it."""

    address: int
    rkey: int
    size_bytes: int

    def __post_init__(self) -> None:
        """Raises ValueError for what no packet can say."""
        if not 0 <= self.rkey < 1 << 32 or self.address < 0 or self.address + self.size_bytes > 1 << 64:
            raise ValueError(
                f"{self.size_bytes} bytes from {self.address} on under key {self.rkey}: addresses have 64 bits, keys 32"
            )


@dataclass(frozen=True, slots=True)
class Offer:
    """What a sender offers: payload bits per second, or None for as fast as possible; from when to when.

    Without `stop_ns` it goes on until `stop`. `outstanding` bounds the messages under way beside the number of slots.
    """

    load_bps: int | None = None
    start_ns: int = 0
    stop_ns: int | None = None
    outstanding: int | None = None


@dataclass(slots=True)
class SenderCounters:
    """What a sender has done; a message counts as completed when it is acknowledged as a whole."""

    messages_posted: int = 0
    messages_completed: int = 0
    bytes_posted: int = 0
    bytes_completed: int = 0
    messages_given_up: int = 0  # offered load that a stall of more than CATCH_UP_NS swallowed
    first_post_ns: int | None = None
    last_completion_ns: int | None = None


@dataclass(slots=True)
class ReceiverCounters:
    """What a receiver has found. `bytes_wrong` counts against the whole message that the immediate names."""

    messages: int = 0
    messages_unexpected: int = 0  # out of order, or of another length
    bytes_delivered: int = 0
    bytes_wrong: int = 0
    first_message_ns: int | None = None
    last_message_ns: int | None = None


class WriteBwSender(Workload):
    """Posts the messages. Raises ValueError when the region is too small for one."""

    def __init__(self, qp: QueuePair, pattern: Pattern, target: Target, offer: Offer) -> None:
        self.qpn = qp.qpn
        self.counters = SenderCounters()
        self._qp = qp
        self._pattern = pattern
        self._target = target
        self._offer = offer
        self._slots = slot_count(target.size_bytes, pattern.message_bytes)
        self._limit = min(self._slots, offer.outstanding or self._slots)
        self._offered = 0  # messages whose time has come: posted, or given up
        self._under_way: dict[int, int] = {}  # message number -> when it was posted
        self._times = Times()
        self._oldest = 0  # the lowest message number under way, or the next one
        self._stopped = False
        self._failure: str | None = None

    def _due_ns(self, offered: int) -> int:
        if self._offer.load_bps is None:
            return self._offer.start_ns
        bits = offered * self._pattern.message_bytes * _BITS_PER_BYTE
        return self._offer.start_ns + bits * _NS_PER_S // self._offer.load_bps

    @property
    def _room(self) -> bool:
        # Completions come in order on MRC; where they did not, the slot of the oldest one would still bar the ring.
        return self.counters.messages_posted - self._oldest < self._limit

    def next_timer(self) -> int | None:
        """The next message's time, when there is room for it; also the end of the offer."""
        if self._stopped:
            return None
        due = self._due_ns(self._offered) if self._room else None
        stop = self._offer.stop_ns
        return stop if due is None or (stop is not None and stop < due) else due

    def handle_timer(self, now: int) -> None:
        """Post what is due."""
        self._fill(now)

    def on_event(self, event: Event, now: int) -> None:
        """A completion makes room for the next message."""
        if isinstance(event, SendCompleted):
            self._complete(event)
            self._fill(now)
        elif isinstance(event, QpFailed):
            self._failure = event.why
            self._stopped = True

    def stop(self, now: int) -> None:
        """Post nothing more."""
        self._stopped = True

    @property
    def done(self) -> bool:
        """Stopped, and all that was posted has completed (or never will, since the queue pair failed)."""
        return self._stopped and (not self._under_way or self._failure is not None)

    def report(self) -> dict[str, Any]:
        """The counters, the messages still under way, and why the queue pair failed, if it did.

        `times`: (ns from posting to completion, how many messages), see `times.Times`.
        """
        return {
            "role": "send",
            **asdict(self.counters),
            "under_way": len(self._under_way),
            "failure": self._failure,
            "times": self._times.report(),
        }

    def _complete(self, event: SendCompleted) -> None:
        counters = self.counters
        self._times.add(event.now_ns - self._under_way.pop(event.wr_id))
        while self._oldest < counters.messages_posted and self._oldest not in self._under_way:
            self._oldest += 1
        counters.messages_completed += 1
        counters.bytes_completed += self._pattern.message_bytes
        counters.last_completion_ns = event.now_ns

    def _fill(self, now: int) -> None:
        stop_ns = self._offer.stop_ns
        if stop_ns is not None and now >= stop_ns:
            self._stopped = True
        if self._stopped:
            return
        self._give_up_what_is_too_late(now)
        try:
            while self._room and self._due_ns(self._offered) <= now:
                self._post(now)
                self._offered += 1
        except QpStateError as error:
            self._failure = str(error)
            self._stopped = True

    def _give_up_what_is_too_late(self, now: int) -> None:
        offer = self._offer
        if offer.load_bps is None:
            return
        message_ns_bps = self._pattern.message_bytes * _BITS_PER_BYTE * _NS_PER_S
        elapsed_ns = now - offer.start_ns
        latest_due = elapsed_ns * offer.load_bps // message_ns_bps
        first_in_time = -(-(elapsed_ns - CATCH_UP_NS) * offer.load_bps // message_ns_bps)
        given_up = min(latest_due, first_in_time) - self._offered
        if given_up > 0:
            self._offered += given_up
            self.counters.messages_given_up += given_up

    def _post(self, now: int) -> None:
        counters, message_bytes = self.counters, self._pattern.message_bytes
        number = counters.messages_posted
        address = self._target.address + number % self._slots * message_bytes
        message = self._pattern.message(number)
        self._qp.post(Write(number, message, address, self._target.rkey, immediate=number & _IMMEDIATE_MASK))
        self._under_way[number] = now
        counters.messages_posted += 1
        counters.bytes_posted += message_bytes
        if counters.first_post_ns is None:
            counters.first_post_ns = now


class WriteBwReceiver(Workload):
    """Checks the messages in `region`, this end's registered memory, and wipes each slot after that."""

    def __init__(self, qpn: int, pattern: Pattern, region: memoryview) -> None:
        self.qpn = qpn
        self.counters = ReceiverCounters()
        self._pattern = pattern
        self._region = region
        self._slots = slot_count(len(region), pattern.message_bytes)
        self._blank = bytes(pattern.message_bytes)
        self._next = 0  # the message number that is expected
        self._stopped = False
        self._failure: str | None = None

    def next_timer(self) -> int | None:
        """Never: a receiver waits for events."""
        return None

    def handle_timer(self, now: int) -> None:
        """Nothing is ever due."""

    def on_event(self, event: Event, now: int) -> None:
        """Check a message that has arrived."""
        if isinstance(event, ImmediateReceived):
            self._check(event)
        elif isinstance(event, QpFailed):
            self._failure = event.why

    def stop(self, now: int) -> None:
        """A receiver goes on checking what comes; it only counts as done from now on."""
        self._stopped = True

    @property
    def done(self) -> bool:
        """Stopped: only the sender knows whether more is under way."""
        return self._stopped

    def report(self) -> dict[str, int | str | None]:
        """The counters, and why the queue pair failed, if it did."""
        return {"role": "receive", **asdict(self.counters), "failure": self._failure}

    def _check(self, event: ImmediateReceived) -> None:
        counters, message_bytes = self.counters, self._pattern.message_bytes
        ahead = (event.immediate - self._next + _IMMEDIATE_HALF & _IMMEDIATE_MASK) - _IMMEDIATE_HALF
        number = self._next + ahead
        if ahead or event.byte_count != message_bytes:
            counters.messages_unexpected += 1
        self._next = number + 1
        start = number % self._slots * message_bytes
        slot = self._region[start : start + message_bytes]
        counters.bytes_wrong += self._pattern.bytes_wrong(number, slot)
        slot[:] = self._blank
        counters.messages += 1
        counters.bytes_delivered += event.byte_count
        if counters.first_message_ns is None:
            counters.first_message_ns = event.now_ns
        counters.last_message_ns = event.now_ns
