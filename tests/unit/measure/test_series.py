"""Counters become goodput: per plane, per flow, in bins of any width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.measure import series
from testbed.measure.record import Received
from tests.unit.measure import handmade
from tests.unit.measure.handmade import PLANE_BPS, ns


def test_a_steady_flow_has_its_rate_in_every_bin_of_every_plane() -> None:
    edges = series.bin_edges(ns(1), ns(3))
    bins = series.plane_bins(handmade.run(), ["h0>h2"], edges)
    assert len(bins) == 10
    assert all(plane == pytest.approx(PLANE_BPS, rel=1e-4) for planes in bins for plane in planes)


def test_flows_and_planes_add_up() -> None:
    bins = series.goodput_bins(handmade.run(), ["h0>h2", "h1>h3"], series.bin_edges(ns(0), ns(1)))
    assert bins == pytest.approx([8 * PLANE_BPS] * 5, rel=1e-4)


def test_a_plane_that_stops_shows_in_its_bins_only() -> None:
    run = handmade.run(rate=lambda flow, plane, t_s: 0 if plane == 1 and 2 <= t_s < 3 else PLANE_BPS)
    bins = series.plane_bins(run, ["h0>h2"], series.bin_edges(ns(1), ns(4), 500_000_000))
    assert [round(planes[1] / 1e6) for planes in bins] == [10, 10, 0, 0, 10, 10]
    assert all(planes[0] == pytest.approx(PLANE_BPS, rel=1e-4) for planes in bins)


def test_only_whole_bins_count() -> None:
    assert series.bin_edges(0, 999, 200) == [0, 200, 400, 600, 800]
    assert series.bin_edges(0, 1000, 200)[-1] == 1000


def test_a_flow_that_was_never_sampled_has_brought_nothing() -> None:
    assert series.mean_goodput(handmade.run(), ["h9>h8"], ns(0), ns(1)) == 0


def test_no_time_is_no_goodput() -> None:
    assert series.mean_goodput(handmade.run(), ["h0>h2"], ns(1), ns(1)) == 0


counters = st.lists(st.tuples(st.integers(1, 100), st.integers(0, 1000)), min_size=1, max_size=20)


@given(counters, st.integers(1, 50))
def test_bins_hold_all_bytes_whatever_their_width(steps: list[tuple[int, int]], width: int) -> None:
    run = handmade.run()
    t_ns, total, samples = 0, 0, [Received(0, (0, 0, 0, 0))]
    for gap, growth in steps:
        t_ns, total = t_ns + gap, total + growth
        samples.append(Received(t_ns, (total, 0, 0, 0)))
    run.received["h0>h2"] = samples
    edges = series.bin_edges(0, t_ns + width, width)
    bins = series.goodput_bins(run, ["h0>h2"], edges)
    assert sum(bits * width / 8e9 for bits in bins) == pytest.approx(total, abs=1e-6)
