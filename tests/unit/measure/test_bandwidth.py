"""nccl-tests' definitions, percentiles and Jain's index, against values worked out by hand."""

import pytest

from testbed.measure.bandwidth import bandwidth, jain_index, percentile

MS = 10**6


@pytest.mark.parametrize(
    ("kind", "ranks", "factor"),
    [
        ("ring_allreduce", 2, 1.0),
        ("ring_allreduce", 8, 1.75),
        ("training", 4, 1.5),
        ("all_to_all", 8, 0.875),
        ("sendrecv", 8, 1.0),
        ("write_lat", 2, 1.0),
    ],
)
def test_bus_bandwidth_is_what_nccl_tests_makes_of_algorithm_bandwidth(kind: str, ranks: int, factor: float) -> None:
    speed = bandwidth(kind, ranks, 1_000_000, 8 * MS)
    assert speed.algorithm_bps == pytest.approx(1e9)
    assert speed.bus_bps == pytest.approx(factor * 1e9)


def test_percentiles() -> None:
    values = list(range(101))
    assert [percentile(values, p) for p in (1, 50, 90, 99)] == [1, 50, 90, 99]
    assert percentile([7.5], 99) == 7.5
    assert percentile([3, 1], 50) == 2


def test_jain_index() -> None:
    assert jain_index([5, 5, 5, 5]) == 1
    assert jain_index([1, 0, 0, 0]) == 0.25
    assert jain_index([4, 2]) == pytest.approx(0.9)
    assert jain_index([0, 0]) == 1
