"""What an agent has to tell: samples at a steady beat and events as they happen, kept for whoever reads them.

Entries are numbered from 0, and a reader says from which number on it wants them: so a run, the live page and a
terminal read side by side, and none takes anything from another. Only the newest are kept; a reader that comes too
late is told how many it has missed. Samples lie on the multiples of their interval on CLOCK_MONOTONIC, so
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
_MAX_SAMPLES = 4_000  # 100 s of two queue pairs
_MAX_EVENTS = 20_000


class Sampled(Protocol):
    """What a sample is taken of: a queue pair that has EVs."""

    qpn: int
    counters: QpCounters
    bytes_received_by_port: list[int]

    def ev_counts(self) -> dict[str, int]: ...


class Log:
    """Numbered entries, the newest `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._entries: deque[dict[str, Any]] = deque(maxlen=limit)
        self.end = 0  # the number of the next entry

    def append(self, entry: dict[str, Any]) -> None:
        """Add the newest entry."""
        self._entries.append(entry)
        self.end += 1

    def read(self, start: int, limit: int) -> tuple[list[dict[str, Any]], int, int]:
        """(up to `limit` entries from number `start` on, the number to go on with, entries missed before the first).

        A number that is not there yet comes from another life of this agent: then reading begins with the oldest.
        """
        oldest = self.end - len(self._entries)
        missed = max(0, oldest - start)
        first = oldest if missed or start > self.end else start
        after = min(first + limit, self.end)
        return [self._entries[number - oldest] for number in range(first, after)], after, missed


class Telemetry:
    """Samples and events of one agent."""

    def __init__(self, now: int, interval_ns: int = DEFAULT_SAMPLE_INTERVAL_NS) -> None:
        self.samples = Log(_MAX_SAMPLES)
        self.events = Log(_MAX_EVENTS)
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
