"""Quantities as people write them, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topology import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_rate_bps, "20 Mb/s", 20_000_000),
        (units.parse_rate_bps, "1.5Gb/s", 1_500_000_000),
        (units.parse_size_bytes, "128 KB", 131_072),
        (units.parse_duration_ns, "10 ms", 10_000_000),
        (units.parse_duration_ns, " 2 min ", 120 * 10**9),
        (units.parse_fraction, "70%", 0.7),
        (units.parse_fraction, 0.7, 0.7),
        (units.parse_fraction, 1, 1.0),
    ],
)
def test_quantities_are_understood(parse, text, value) -> None:  # type: ignore[no-untyped-def]
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (units.parse_rate_bps, "20"),
        (units.parse_rate_bps, 20),
        (units.parse_rate_bps, "20 MB/s"),
        (units.parse_rate_bps, "-1 Mb/s"),
        (units.parse_size_bytes, "1 kb"),
        (units.parse_duration_ns, "10"),
        (units.parse_duration_ns, "9" * 400 + " s"),
        (units.parse_duration_ns, "ms"),
        (units.parse_duration_ns, f"{'9' * 400} s"),
        (units.parse_size_bytes, "9999999999999 GB"),
        (units.parse_fraction, "170%"),
        (units.parse_fraction, True),
        (units.parse_fraction, -0.1),
        (units.parse_fraction, None),
    ],
)
def test_what_is_no_quantity_is_refused_with_an_example(parse, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="write it like"):
        parse(text)


@given(st.integers(1, 999), st.sampled_from(list(units.RATE_UNITS)))
def test_rates_are_written_as_they_are_read(number: int, unit: str) -> None:
    rate_bps = number * units.RATE_UNITS[unit]
    assert units.parse_rate_bps(units.format_rate(rate_bps)) == rate_bps


@given(st.integers(1, 999), st.sampled_from(["ns", "us", "ms"]))
def test_durations_are_written_as_they_are_read(number: int, unit: str) -> None:
    duration_ns = number * units.DURATION_UNITS[unit]
    assert units.parse_duration_ns(units.format_duration(duration_ns)) == duration_ns


@given(st.integers(1, 1023), st.sampled_from(list(units.SIZE_UNITS)))
def test_sizes_are_written_as_they_are_read(number: int, unit: str) -> None:
    size_bytes = number * units.SIZE_UNITS[unit]
    assert units.parse_size_bytes(units.format_size(size_bytes)) == size_bytes
