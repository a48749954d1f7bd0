"""What the fabric's own ports counted in a run: the ground truth beside what senders and receivers say.

A port is called by the way it sends: `p0t0-1>h4`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class PortCount:
    """Packets, and what became of others, by cause; `queue_max_bytes` is the longest queue of the time it is about."""

    packets: int = 0
    bytes: int = 0
    marked: int = 0
    trimmed: int = 0
    dropped_queue: int = 0
    dropped_control: int = 0
    dropped_loss: int = 0
    dropped_black_hole: int = 0
    queue_max_bytes: int = 0

    @property
    def dropped(self) -> int:
        """Packets dropped for whatever cause."""
        return self.dropped_queue + self.dropped_control + self.dropped_loss + self.dropped_black_hole

    def since(self, earlier: PortCount) -> PortCount:
        """What was counted since then; the queue is this one's."""
        counted = {name: getattr(self, name) - getattr(earlier, name) for name in _COUNTED}
        return replace(self, **counted)

    def and_then(self, later: PortCount) -> PortCount:
        """Two stretches of time together."""
        counted = {name: getattr(self, name) + getattr(later, name) for name in _COUNTED}
        return PortCount(**counted, queue_max_bytes=max(self.queue_max_bytes, later.queue_max_bytes))

    def told(self) -> dict[str, int]:
        """By name, without what is 0."""
        return {item.name: value for item in fields(self) if (value := getattr(self, item.name))}


_COUNTED = tuple(item.name for item in fields(PortCount) if item.name != "queue_max_bytes")

Counts = dict[str, PortCount]  # by port

PortSource = Callable[[], Counts]
"""Reads the ports of a lab: counters since the lab is up, the longest queue since the last reading."""


def total(counts: Counts) -> PortCount:
    """All ports together."""
    together = PortCount()
    for one in counts.values():
        together = together.and_then(one)
    return together


def notable(counts: Counts) -> Counts:
    """The ports that did more than pass packets on, those that dropped and cut most first."""
    found = {name: one for name, one in counts.items() if one.dropped or one.trimmed or one.marked}
    return dict(sorted(found.items(), key=lambda item: (-item[1].dropped, -item[1].trimmed, -item[1].marked)))
