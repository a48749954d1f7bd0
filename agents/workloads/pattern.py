"""Contents of messages: pseudo-random, fixed by (seed, message number), so that each end knows them without asking.

A message is a slice of one block of random bytes, at an offset that no two messages of a seed share until `_OFFSETS`
messages later: what an earlier message left in memory, or what belongs elsewhere, never passes for it. Slices cost
nothing to make, are compared by memcmp, and the block is shared by all agents that were forked from one process.
"""

from __future__ import annotations

import random
from functools import lru_cache

_OFFSETS = 1 << 20  # distinct contents per seed
MAX_MESSAGE_BYTES = 1 << 20
_BLOCK_SEED = 0x6D7263


@lru_cache(maxsize=1)
def block() -> bytes:
    """The random bytes that every message is cut from; made at the first call, which takes some milliseconds."""
    return random.Random(_BLOCK_SEED).randbytes(_OFFSETS + MAX_MESSAGE_BYTES)


class Pattern:
    """The messages of one flow, all of `message_bytes`. Raises ValueError when that is not in 1..MAX_MESSAGE_BYTES."""

    def __init__(self, seed: int, message_bytes: int) -> None:
        if not 0 < message_bytes <= MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {message_bytes} bytes is not in 1..{MAX_MESSAGE_BYTES}")
        choose = random.Random(seed)
        self.message_bytes = message_bytes
        self._block = block()
        self._view = memoryview(self._block)
        self._first = choose.randrange(_OFFSETS)
        self._stride = choose.randrange(1, _OFFSETS, 2)  # odd: all offsets come before one comes again

    def _offset(self, number: int) -> int:
        return (self._first + number * self._stride) % _OFFSETS

    def message(self, number: int) -> memoryview:
        """The contents of a message, as a view that stays as it is for good."""
        offset = self._offset(number)
        return self._view[offset : offset + self.message_bytes]

    def bytes_wrong(self, number: int, received: memoryview) -> int:
        """How many of the `message_bytes` bytes received differ from those of message `number`."""
        if self._block.startswith(received, self._offset(number)):
            return 0
        wanted = int.from_bytes(self.message(number), "big")
        difference = wanted ^ int.from_bytes(received, "big")
        return self.message_bytes - difference.to_bytes(self.message_bytes, "big").count(0)
