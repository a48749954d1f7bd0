"""testbed.measure.jobs: which operations met a fault."""

from __future__ import annotations

import pytest

from tests.unit.measure import handmade
from tests.unit.measure.handmade import ns


def test_only_operations_that_were_under_way_count() -> None:
    job = handmade.job()
    took_ns = job.times[0][1] - job.times[0][0]
    second = ns(1) + took_ns
    met = job.during(second + 1, second + 2)
    assert met is not None and met["operations"] == 1
    assert met["p50"] == met["max"] == pytest.approx(took_ns / 1e9)
    both = job.during(second - 1, second + 1)
    assert both is not None and both["operations"] == 2
    assert job.during(0, ns(1)) is None and job.during(ns(1) + 10 * took_ns, ns(100)) is None
