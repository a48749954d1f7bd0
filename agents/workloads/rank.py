"""A rank of a job: a program, written as a generator, that runs over channels to other ranks.

    yield Send(to, data)         queue a message
    data = yield Receive(from_)  wait for the next message from there
    yield Sleep(ns)              compute
    yield Began() / Ended()      one operation: its time is recorded

What a program can do at once it does at once; where it has to wait, the rank waits for an event or a timer. A rank
begins when it is released: whoever runs the job does so when all ranks are ready. What a rank that is ahead sends waits
at the one that is behind.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from agents.transport import Event, QpFailed, QpStateError
from agents.workloads.base import Workload
from agents.workloads.channel import Channel


class Send(NamedTuple):
    """A message to another rank."""

    to: int
    data: bytes | memoryview


class Receive(NamedTuple):
    """The next message from another rank; the program goes on with its bytes."""

    source: int


class Sleep(NamedTuple):
    """Let time pass."""

    for_ns: int


class Began(NamedTuple):
    """An operation begins."""


class Ended(NamedTuple):
    """It has ended: `parts` equal ones of it, of which the time of one is recorded."""

    parts: int = 1


Step = Send | Receive | Sleep | Began | Ended
Program = Generator[Step, bytes, None]


@dataclass(slots=True)
class RankCounters:
    """What a rank has done. Operations count when they have ended; bytes are those that the program has checked."""

    operations: int = 0
    bytes_delivered: int = 0
    bytes_wrong: int = 0

    def check(self, received: bytes | bytearray, wanted: bytes | memoryview) -> None:
        """Count what was received, and what of it is not as it has to be (at least one byte, for another length)."""
        self.bytes_delivered += len(received)
        if received != wanted:
            differing = sum(a != b for a, b in zip(received, wanted, strict=False))
            self.bytes_wrong += max(1, differing + abs(len(received) - len(wanted)))


class RankWorkload(Workload):
    """Runs the program. `counters` is the object that the program counts in."""

    def __init__(self, rank: int, channels: Mapping[int, Channel], program: Program, counters: RankCounters) -> None:
        """`channels`: by the other end's rank."""
        self.rank = rank
        self.counters = counters
        self._channels = dict(channels)
        self._by_qpn = {qpn: channel for channel in channels.values() for qpn in channel.qpns}
        self.qpn = min(self._by_qpn)
        self._program: Program | None = program
        self._released = False
        self._begun = False  # the program has taken its first step
        self._waits_for: Channel | None = None
        self._wakes_ns: int | None = None
        self._began_ns = 0
        self._times: list[tuple[int, int, int]] = []  # (began, ended, parts)
        self._failure: str | None = None

    @property
    def qpns(self) -> list[int]:
        """All queue pairs that it uses."""
        return list(self._by_qpn)

    def release(self, now: int) -> None:
        """Begin. No effect the second time."""
        if not self._released:
            self._released = True
            self._advance(b"", now)

    def on_event(self, event: Event, now: int) -> None:
        """Take an event of one of the queue pairs."""
        if isinstance(event, QpFailed):
            self._fail(event.why)
            return
        try:
            self._by_qpn[event.qpn].on_event(event)
        except QpStateError as error:
            self._fail(str(error))
            return
        if self._waits_for is not None:
            received = self._waits_for.receive()
            if received is not None:
                self._advance(received, now)

    def next_timer(self) -> int | None:
        """The end of a sleep."""
        return self._wakes_ns

    def handle_timer(self, now: int) -> None:
        """Wake up, if it is time."""
        if self._wakes_ns is not None and now >= self._wakes_ns:
            self._advance(b"", now)

    def stop(self, now: int) -> None:
        """End the program where it is."""
        self._end()

    @property
    def done(self) -> bool:
        """The program has ended, and what it sent is acknowledged, or never will be."""
        return self._program is None and (
            self._failure is not None or all(channel.idle for channel in self._channels.values())
        )

    def report(self) -> dict[str, Any]:
        """The counters; `times`: (began, ended, parts) of each operation; why a queue pair failed, if one did."""
        return {
            "role": "rank",
            "rank": self.rank,
            **asdict(self.counters),
            "bytes_sent": sum(channel.bytes_sent for channel in self._channels.values()),
            "messages_unexpected": sum(channel.messages_unexpected for channel in self._channels.values()),
            "times": list(self._times),
            "ended": self._program is None,
            "failure": self._failure,
        }

    def _advance(self, received: bytes, now: int) -> None:
        """Go on with what was received, until the program has to wait."""
        self._waits_for = self._wakes_ns = None
        try:
            while self._program is not None:
                step = self._program.send(received) if self._begun else next(self._program)
                self._begun = True
                waited = self._do(step, now)
                if waited is None:
                    return
                received = waited
        except StopIteration:
            self._end()
        except QpStateError as error:
            self._fail(str(error))

    def _do(self, step: Step, now: int) -> bytes | None:
        """What the program goes on with, or None when it has to wait."""
        match step:
            case Send(to, data):
                self._channels[to].send(data)
            case Receive(source):
                channel = self._channels[source]
                received = channel.receive()
                if received is None:
                    self._waits_for = channel
                return received
            case Sleep(for_ns):
                self._wakes_ns = now + for_ns
                return None
            case Began():
                self._began_ns = now
            case Ended(parts):
                self._times.append((self._began_ns, now, parts))
                self.counters.operations += 1
        return b""

    def _fail(self, why: str) -> None:
        self._failure = self._failure or why
        self._end()

    def _end(self) -> None:
        self._program = self._waits_for = self._wakes_ns = None
