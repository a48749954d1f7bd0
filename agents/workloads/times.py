"""How long many things took, in little room: counts by duration, each rounded down to 5 significant bits."""

from __future__ import annotations

from collections import Counter

_BITS = 5


class Times:
    """Durations in ns. `counts`: how many took so long, or up to 1/16 longer."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, took_ns: int) -> None:
        """One more."""
        shift = max(0, took_ns.bit_length() - _BITS)
        self.counts[took_ns >> shift << shift] += 1

    def report(self) -> list[tuple[int, int]]:
        """(duration, how many), from the shortest on."""
        return sorted(self.counts.items())
