"""Registered memory: what may be written where, and what may not."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.memory import AccessError, MemoryTable


@given(st.integers(0, 100), st.integers(-3, 103), st.integers(0, 103))
def test_exactly_what_lies_inside_the_region(region_bytes: int, offset: int, size: int) -> None:
    table = MemoryTable(Random(1))
    table.register(50)
    region = table.register(region_bytes)
    table.register(50)
    if offset >= 0 and offset + size <= region_bytes:
        assert table.slot(region.rkey, region.address + offset, size) == (region.buffer, offset)
    else:
        with pytest.raises(AccessError, match="not inside the region"):
            table.slot(region.rkey, region.address + offset, size)


def test_unknown_and_deregistered_keys() -> None:
    table = MemoryTable(Random(1))
    region = table.register(10)
    with pytest.raises(AccessError, match="no region has rkey"):
        table.slot(region.rkey ^ 1, region.address, 1)
    table.deregister(region.rkey)
    with pytest.raises(AccessError, match="no region has rkey"):
        table.slot(region.rkey, region.address, 1)


def test_a_callers_buffer_is_written_in_place() -> None:
    table, memory = MemoryTable(Random(1)), bytearray(4)
    region = table.register(memory)
    buffer, offset = table.slot(region.rkey, region.address + 1, 2)
    buffer[offset : offset + 2] = b"ab"
    assert memory == b"\0ab\0"


def test_read_only_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="writable"):
        MemoryTable(Random(1)).register(memoryview(b"constant"))


def test_keys_differ_even_when_the_dice_repeat() -> None:
    class Loaded(Random):
        def getrandbits(self, k: int) -> int:
            return next(rolls)

    rolls = iter([7, 7, 7, 8])
    table = MemoryTable(Loaded())
    assert [table.register(1).rkey for _ in range(2)] == [7, 8]
