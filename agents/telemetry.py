"""What an agent has to tell: samples at a steady beat and events as they happen, kept until they are collected.

Both are bounded; what did not fit is counted. Samples lie on the multiples of their interval on CLOCK_MONOTONIC, so
that those of all agents belong together; each carries the time at which it was really taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Protocol

from agents.transport import Event, QpCounters

DEFAULT_SAMPLE_INTERVAL_NS = 50_000_000
SHORTEST_SAMPLE_INTERVAL_NS = 5_000_000
_MAX_SAMPLES = 20_000
_MAX_EVENTS = 50_000


class Sampled(Protocol):
    """What a sample is taken of: a queue pair that has EVs."""

    qpn: int
    counters: QpCounters
    bytes_received_by_port: list[int]

    def ev_counts(self) -> dict[str, int]: ...


class _Bounded:
    """A queue that drops its oldest entry when it is full, and counts that."""

    def __init__(self, limit: int) -> None:
        self._entries: deque[dict[str, Any]] = deque(maxlen=limit)
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: dict[str, Any]) -> None:
        """Add the newest entry."""
        if len(self._entries) == self._entries.maxlen:
            self.dropped += 1
        self._entries.append(entry)

    def take(self, limit: int) -> list[dict[str, Any]]:
        """The oldest `limit` entries, which are then gone from here."""
        return [self._entries.popleft() for _ in range(min(limit, len(self._entries)))]


class Telemetry:
    """Samples and events of one agent."""

    def __init__(self, now: int, interval_ns: int = DEFAULT_SAMPLE_INTERVAL_NS) -> None:
        self.samples = _Bounded(_MAX_SAMPLES)
        self.events = _Bounded(_MAX_EVENTS)
        self._interval_ns = interval_ns
        self._due_ns = self._next_beat(now)

    def set_interval(self, interval_ns: int, now: int) -> None:
        """Change the beat. Raises ValueError for less than SHORTEST_SAMPLE_INTERVAL_NS."""
        if interval_ns < SHORTEST_SAMPLE_INTERVAL_NS:
            raise ValueError(f"{interval_ns} ns between samples; at least {SHORTEST_SAMPLE_INTERVAL_NS} are needed")
        self._interval_ns = interval_ns
        self._due_ns = self._next_beat(now)

    def next_timer(self) -> int:
        """When the next sample is due, in ns."""
        return self._due_ns

    def sample(self, qps: Iterable[Sampled], now: int) -> None:
        """Sample each queue pair when it is time, once, however many beats have been missed."""
        if now < self._due_ns:
            return
        self._due_ns = self._next_beat(now)
        for qp in qps:
            self.samples.append(
                {
                    "t_ns": now,
                    "qpn": qp.qpn,
                    "bytes_received_by_port": list(qp.bytes_received_by_port),
                    "evs": qp.ev_counts(),
                    **counters_of(qp),
                }
            )

    def note(self, event: Event) -> None:
        """Keep an event of a queue pair: its fields and, as `kind`, the name of its class."""
        names = event.__dataclass_fields__
        self.events.append({"kind": type(event).__name__, **{name: getattr(event, name) for name in names}})

    def note_carrier(self, port: int, up: bool, now: int) -> None:
        """Keep that a NIC port has lost or regained carrier."""
        self.events.append({"kind": "CarrierChanged", "now_ns": now, "port": port, "up": up})

    def _next_beat(self, now: int) -> int:
        return (now // self._interval_ns + 1) * self._interval_ns


_COUNTERS = tuple(field.name for field in fields(QpCounters))


def counters_of(qp: Sampled) -> dict[str, int]:
    """The counters of a queue pair by name."""
    return {name: getattr(qp.counters, name) for name in _COUNTERS}
