"""Quantiles, and intervals that hold what they promise: measured against draws from known distributions."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.measure.distribution import Distribution, share_interval


def of(*values: float) -> Distribution:
    found = Distribution.of(values)
    assert found is not None
    return found


def test_no_observations_are_no_distribution() -> None:
    assert Distribution.of([]) is None


def test_quantiles_are_observations() -> None:
    ten = of(*range(10, 0, -1))
    assert [ten.quantile(share) for share in (0, 0.1, 0.5, 0.51, 0.95, 1)] == [1, 1, 5, 6, 10, 10]
    assert ten.mean == 5.5


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_splits_the_observations_as_it_says(values: list[float], share: float) -> None:
    found = of(*values)
    value = found.quantile(share)
    assert sum(one <= value for one in values) >= share * len(values) - 1e-6
    assert sum(one < value for one in values) <= share * len(values) + 1e-6


@pytest.mark.parametrize(("count", "ranks"), [(5, None), (6, (0, 5)), (10, (1, 8)), (20, (5, 14)), (100, (39, 60))])
def test_the_ranks_around_a_median_are_those_of_the_tables(count: int, ranks: tuple[int, int] | None) -> None:
    assert of(*range(count)).median_interval() == ranks


def test_about_95_of_100_intervals_hold_the_median_and_the_share() -> None:
    rng = Random(7)
    medians = shares = 0
    for _ in range(2000):
        interval = of(*(rng.expovariate(1) for _ in range(25))).median_interval()
        assert interval is not None
        medians += interval[0] <= 0.693147 <= interval[1]
        low, high = share_interval(sum(rng.random() < 0.3 for _ in range(40)), 40)
        shares += low <= 0.3 <= high
    assert medians >= 1880  # 95 % or more by construction
    assert 1850 <= shares <= 1970


def test_a_share_that_was_never_or_always_seen_is_not_certain() -> None:
    assert share_interval(0, 20) == pytest.approx((0, 0.161), abs=0.001)
    assert share_interval(20, 20) == pytest.approx((0.839, 1), abs=0.001)
