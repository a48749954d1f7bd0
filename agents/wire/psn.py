"""Packet sequence numbers: serial arithmetic on 24 bits (IBTA BTH.PSN; after RFC 1982).

Two PSNs compare by the shorter way round the circle, so a comparison means something only for PSNs less than
2^23 apart. Who needs to count further unwraps a PSN once, at the door, with `unwrap`.
"""

from __future__ import annotations

from typing import Final

BITS: Final = 24
MODULUS: Final = 1 << BITS
MASK: Final = MODULUS - 1
_HALF = MODULUS >> 1


def add(psn: int, count: int) -> int:
    """The PSN `count` (also negative) after `psn`."""
    return (psn + count) & MASK


def distance(start: int, end: int) -> int:
    """How far `end` is after `start`, signed, in -2^23 .. 2^23 - 1."""
    return ((end - start + _HALF) & MASK) - _HALF


def unwrap(psn: int, near: int) -> int:
    """The unbounded integer that is `psn` modulo 2^24 and nearest to the unbounded integer `near`."""
    return near + distance(near, psn)
