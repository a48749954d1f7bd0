"""agents.workloads.pattern: what is right passes, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.workloads.pattern import MAX_MESSAGE_BYTES, Pattern


@given(seed=st.integers(0, 2**32), number=st.integers(0, 2**40), size=st.integers(1, 5000))
def test_both_ends_know_the_same_message(seed: int, number: int, size: int) -> None:
    sent = Pattern(seed, size).message(number)
    assert len(sent) == size
    assert Pattern(seed, size).bytes_wrong(number, sent) == 0


@given(data=st.data(), size=st.integers(1, 3000))
def test_each_corrupted_byte_is_counted_once(data: st.DataObject, size: int) -> None:
    pattern = Pattern(7, size)
    received = bytearray(pattern.message(3))
    corrupted = data.draw(st.sets(st.integers(0, size - 1), max_size=20))
    for place in corrupted:
        received[place] ^= data.draw(st.integers(1, 255))
    assert pattern.bytes_wrong(3, memoryview(received)) == len(corrupted)


@pytest.mark.parametrize(
    ("what", "seed", "number"),
    [("the next message", 1, 11), ("another flow's message", 2, 10), ("the next one in the slot", 1, 10 + 32)],
)
def test_another_message_is_wrong_in_nearly_every_byte(what: str, seed: int, number: int) -> None:
    size = 4096
    assert Pattern(1, size).bytes_wrong(10, Pattern(seed, size).message(number)) > 0.98 * size, what


def test_a_blank_slot_is_wrong() -> None:
    assert Pattern(1, 4096).bytes_wrong(0, memoryview(bytes(4096))) > 4000


@pytest.mark.parametrize("size", [0, -1, MAX_MESSAGE_BYTES + 1])
def test_sizes_without_a_pattern_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="is not in 1"):
        Pattern(1, size)
