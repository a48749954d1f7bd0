"""Durations kept by their length: rounded down by a sixteenth at most, and counted."""

from hypothesis import given
from hypothesis import strategies as st

from agents.workloads.times import Times
from testbed.measure.bandwidth import weighted_percentiles


@given(st.lists(st.integers(0, 1 << 60), min_size=1, max_size=50))
def test_each_is_kept_within_a_sixteenth(durations: list[int]) -> None:
    times = Times()
    for one in durations:
        times.add(one)
    kept = [value for value, count in times.report() for _ in range(count)]
    for exact, rounded in zip(sorted(durations), kept, strict=True):
        assert rounded <= exact <= rounded + rounded // 16


def test_percentiles_are_values_that_were_seen() -> None:
    told = weighted_percentiles({1_000: 90, 2_000: 9, 50_000: 1})
    assert told == {"p50": 1e-6, "p90": 1e-6, "p99": 2e-6, "p99.9": 5e-5, "max": 5e-5}
    assert weighted_percentiles({}) is None
