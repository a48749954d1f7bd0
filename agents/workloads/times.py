"""How long many things took, in little room: counts by duration, each rounded down to 5 significant bits."""

from __future__ import annotations

_BITS = 5


class Times:
    """Durations in ns. `counts`: how many took so long, or up to 1/16 longer."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def add(self, took_ns: int) -> None:
        """One more."""
        shift = max(0, took_ns.bit_length() - _BITS)
        kept = took_ns >> shift << shift
        self.counts[kept] = self.counts.get(kept, 0) + 1

    def report(self) -> list[tuple[int, int]]:
        """(duration, how many), from the shortest on."""
        return sorted(self.counts.items())
