"""The vectors of the all-reduce, against sums done number by number."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.workloads import numbers


def unpacked(vector: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(vector) // 4}I", vector)


@given(st.integers(0, 99), st.integers(1, 40), st.integers(0, 9), st.integers(1, 60))
def test_the_expected_sum_is_that_of_the_numbers(seed: int, ranks: int, operation: int, count: int) -> None:
    given_ = [unpacked(numbers.contribution(seed, rank, operation, 4 * count)) for rank in range(ranks)]
    assert max(map(max, given_)) < 1 << 24
    assert unpacked(numbers.expected_sum(seed, ranks, operation, 4 * count)) == tuple(
        map(sum, zip(*given_, strict=True))
    )


@given(st.lists(st.tuples(st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 31) - 1)), min_size=1))
def test_vectors_are_added_number_by_number(pairs: list[tuple[int, int]]) -> None:
    left, right = (struct.pack(f"<{len(pairs)}I", *column) for column in zip(*pairs, strict=True))
    assert unpacked(numbers.added(left, right)) == tuple(a + b for a, b in pairs)


def test_even_the_largest_job_never_carries() -> None:
    assert numbers.MAX_RANKS * ((1 << 24) - 1) < 1 << 32


def test_each_rank_and_operation_gives_something_else() -> None:
    vectors = {numbers.contribution(1, rank, operation, 400) for rank in range(9) for operation in range(9)}
    assert len(vectors) == 81


@given(st.integers(1, 300), st.integers(2, 20))
def test_shares_are_whole_numbers_without_gaps_and_as_even_as_can_be(count: int, ranks: int) -> None:
    shares = [numbers.share(4 * count, ranks, number) for number in range(ranks)]
    assert shares[0].start == 0 and shares[-1].stop == 4 * count
    assert all(before.stop == after.start for before, after in itertools.pairwise(shares))
    sizes = {part.stop - part.start for part in shares}
    assert max(sizes) - min(sizes) <= 4 and all(size % 4 == 0 for size in sizes)


@pytest.mark.parametrize("size", [0, 3, 6])
def test_what_is_no_vector_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="not a vector"):
        numbers.contribution(1, 0, 0, size)
