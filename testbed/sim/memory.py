"""Watches a region: that every byte a peer writes lands where it belongs, at once, and exactly once.

Before the transfer every byte of the region is the complement of the one that shall come, so that each write changes
all the bytes it touches. When a packet has been taken and its place has changed, its place is set back to the
complement: if the same bytes were written a second time, the place would change again, and that is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from agents.memory import Region
from agents.wire.packet import WireError, Write, parse

_COMPLEMENT = bytes(0xFF - value for value in range(256))


class MemoryWatch:
    """Expects `content` in a region. `writes`: how often each (offset, size) was written."""

    def __init__(self, region: Region, content: bytes) -> None:
        self.writes: Counter[tuple[int, int]] = Counter()
        self._region = region
        self._content = content
        self._before = content.translate(_COMPLEMENT)
        region.buffer[:] = self._before

    def take(self, data: bytes, receive: Callable[[], None]) -> None:
        """Let `receive` take in the packet `data` and see what that does to the region."""
        place = self._place_of(data)
        receive()
        if place is None:
            return
        offset, size = place
        found = self._region.buffer[offset : offset + size]
        if found == self._before[offset : offset + size]:
            return
        assert found == self._content[offset : offset + size], f"wrong bytes at offset {offset}"
        self.writes[place] += 1
        found[:] = self._before[offset : offset + size]

    def _place_of(self, data: bytes) -> tuple[int, int] | None:
        try:
            body = parse(data).body
        except WireError:
            return None
        if not isinstance(body, Write) or body.rkey != self._region.rkey or not body.payload:
            return None
        return body.address - self._region.address, len(body.payload)

    def check(self) -> None:
        """Raises AssertionError unless every byte was written exactly once, and nothing beside its place."""
        twice = [place for place, count in self.writes.items() if count != 1]
        assert not twice, f"written more than once: {twice[:5]}"
        end = 0
        for offset, size in sorted(self.writes):
            assert offset == end, f"bytes {end}..{offset} of {len(self._content)} were never written, or written twice"
            end = offset + size
        assert end == len(self._content), f"bytes {end}.. of {len(self._content)} were never written"
        assert self._region.buffer == self._before, "something was written beside its place"
