"""What the receiver knows: which PSNs have arrived, and which of that it has not yet reported.

The window is [cack + 1, cack + mpr]; cack is the cumulative ack. Both bit masks are integers whose bit 0 is cack + 1.
PSNs are unbounded integers in here.

Which 64 PSNs a SACK reports [ours]: blocks start at cack + 1, so that whoever has at most 64 packets in flight learns
everything from every SACK. A report covers the block of the packet that triggered it, each block where something
has arrived since it was last reported, and, in every fourth report at the latest, the first block, where the holes are.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

BLOCK = 64
_BLOCK_MASK = (1 << BLOCK) - 1
_FRONT_EVERY = 4


class Arrival(Enum):
    """What a PSN turned out to be."""

    NEW = "new"
    DUPLICATE = "duplicate"
    OUTSIDE = "outside the window"


# Names of the module are found quicker than members, and these are asked for with every packet.
NEW: Final = Arrival.NEW
DUPLICATE: Final = Arrival.DUPLICATE
OUTSIDE: Final = Arrival.OUTSIDE


class Arrivals:
    """The receiver's bitmap."""

    __slots__ = ("_bits", "_fresh", "_mpr", "_since_front", "cack")

    def __init__(self, first_psn: int, mpr: int) -> None:
        """`first_psn` is the first that is awaited, `mpr` how many from there on can be tracked."""
        self.cack = first_psn - 1
        self._mpr = mpr
        self._bits = 0
        self._fresh = 0  # arrived, and in no report yet
        self._since_front = 0

    def take(self, psn: int) -> Arrival:
        """A packet is here: what is it? New ones are marked, and move cack when they fill its hole."""
        index = psn - self.cack - 1
        if index < 0:
            return DUPLICATE
        if index >= self._mpr:
            return OUTSIDE
        bit = 1 << index
        bits = self._bits
        if bits & bit:
            return DUPLICATE
        bits |= bit
        self._fresh |= bit
        if bits & 1:
            run = (~bits & bits + 1).bit_length() - 1  # ones from bit 0 on
            self.cack += run
            bits >>= run
            self._fresh >>= run
        self._bits = bits
        return NEW

    def set_mpr(self, mpr: int) -> None:
        """Track so many from now on; what has arrived beyond stays."""
        self._mpr = mpr

    def what(self, psn: int) -> Arrival:
        """What `take` would say."""
        index = psn - self.cack - 1
        if index < 0:
            return DUPLICATE
        if index >= self._mpr:
            return OUTSIDE
        return DUPLICATE if self._bits >> index & 1 else NEW

    def count_beyond(self) -> int:
        """Packets that have arrived beyond cack."""
        return self._bits.bit_count()

    def report(self, trigger_psn: int) -> list[tuple[int, int]]:
        """[(offset from cack, 64-bit bitmap)] to send now, the trigger's block first; everything counts as reported."""
        trigger = min(max(0, trigger_psn - self.cack - 1), self._mpr - 1) // BLOCK
        blocks = [trigger]
        fresh = self._fresh & ~(_BLOCK_MASK << trigger * BLOCK)
        while fresh:
            block = ((fresh & -fresh).bit_length() - 1) // BLOCK
            blocks.append(block)
            fresh &= ~(_BLOCK_MASK << block * BLOCK)
        self._fresh = 0
        if 0 in blocks:
            self._since_front = 0
        else:
            self._since_front += 1
            if self._since_front >= _FRONT_EVERY:
                self._since_front = 0
                blocks.append(0)
        return [(1 + block * BLOCK, self._bits >> block * BLOCK & _BLOCK_MASK) for block in blocks]
