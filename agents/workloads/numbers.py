"""Vectors of numbers that are really added up: lanes of 32 bits, added all at once as one long integer.

A rank's contribution has lanes below 2^24, so that the sum of up to MAX_RANKS of them never carries into the next lane.
"""

from __future__ import annotations

from functools import lru_cache

from agents.workloads.pattern import Pattern

NUMBER_BYTES = 4
MAX_RANKS = 256
_VALUE_BYTES = 3


@lru_cache(maxsize=4)
def _values_only(size_bytes: int) -> int:
    return int.from_bytes((b"\xff" * _VALUE_BYTES + bytes(NUMBER_BYTES - _VALUE_BYTES)) * (size_bytes // NUMBER_BYTES))


def contribution(seed: int, rank: int, operation: int, size_bytes: int) -> bytes:
    """What `rank` gives to the sum of an operation; each end can compute everybody's.

    Raises ValueError when the size is not a positive multiple of NUMBER_BYTES.
    """
    if size_bytes < 1 or size_bytes % NUMBER_BYTES:
        raise ValueError(f"{size_bytes} bytes are not a vector of numbers of {NUMBER_BYTES} bytes")
    message = Pattern(seed * MAX_RANKS + rank, size_bytes).message(operation)
    # As the mask is made, the highest byte of each number, in little-endian order, becomes 0.
    return (int.from_bytes(message) & _values_only(size_bytes)).to_bytes(size_bytes)


def added(left: bytes | bytearray, right: bytes) -> bytes:
    """The sum, number by number, of two vectors of one length."""
    total = int.from_bytes(left, "little") + int.from_bytes(right, "little")
    return total.to_bytes(len(left), "little")


def expected_sum(seed: int, ranks: int, operation: int, size_bytes: int) -> bytes:
    """What the sum over all ranks has to be."""
    total = sum(int.from_bytes(contribution(seed, rank, operation, size_bytes), "little") for rank in range(ranks))
    return total.to_bytes(size_bytes, "little")


def share(size_bytes: int, ranks: int, number: int) -> slice:
    """The bytes of part `number` when a vector is divided among the ranks as evenly as it goes, in whole numbers."""
    count = size_bytes // NUMBER_BYTES
    return slice(count * number // ranks * NUMBER_BYTES, count * (number + 1) // ranks * NUMBER_BYTES)
