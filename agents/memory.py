"""Registered memory: regions that a peer may write to, named by an rkey and a virtual address.

Shared by MRC and the RoCE baseline. A packet's bytes go to the address that its RETH names, or nowhere at all.
"""

from __future__ import annotations

from random import Random

_FIRST_ADDRESS = 1 << 32
_GUARD_BYTES = 1 << 16  # never registered, so that running off the end of one region is never a hit in the next
_RKEY_BITS = 32


class AccessError(ValueError):
    """No such rkey, or the bytes would not lie wholly inside its region."""


class Region:
    """Registered memory: `buffer` is seen by peers as `address`.. under `rkey`."""

    __slots__ = ("address", "buffer", "rkey")

    def __init__(self, rkey: int, address: int, buffer: memoryview) -> None:
        self.rkey = rkey
        self.address = address
        self.buffer = buffer


class MemoryTable:
    """The regions of one NIC."""

    def __init__(self, rng: Random) -> None:
        """`rng` draws the rkeys."""
        self._rng = rng
        self._regions: dict[int, tuple[int, int, memoryview]] = {}  # rkey -> (address, bytes, buffer)
        self._next_address = _FIRST_ADDRESS

    def register(self, memory: int | bytearray | memoryview) -> Region:
        """A region of so many zero bytes, or over a buffer of the caller's (writable, in bytes)."""
        buffer = memoryview(bytearray(memory) if isinstance(memory, int) else memory)
        if buffer.readonly or buffer.itemsize != 1 or buffer.ndim != 1:
            raise ValueError("registered memory has to be a flat, writable buffer of bytes")
        rkey = self._rng.getrandbits(_RKEY_BITS)
        while rkey in self._regions:
            rkey = self._rng.getrandbits(_RKEY_BITS)
        region = Region(rkey, self._next_address, buffer)
        self._regions[rkey] = (region.address, len(buffer), buffer)
        self._next_address += len(buffer) + _GUARD_BYTES
        return region

    def deregister(self, rkey: int) -> None:
        """From now on nothing is written there. Unknown rkeys are no error."""
        self._regions.pop(rkey, None)

    def slot(self, rkey: int, address: int, size: int) -> tuple[memoryview, int]:
        """(buffer, offset) where `size` bytes for `address` go. Raises AccessError."""
        found = self._regions.get(rkey)
        if found is None:
            raise AccessError(f"no region has rkey {rkey:#010x}")
        base, region_bytes, buffer = found
        offset = address - base
        if offset < 0 or offset + size > region_bytes:
            raise AccessError(f"{size} bytes at {address:#x} are not inside the region of rkey {rkey:#010x}")
        return buffer, offset
