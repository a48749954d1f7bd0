"""Advice for a run that was too much for the machine: numbers that follow from what it did carry."""

from __future__ import annotations

import pytest

from testbed.chaos import fitting, verdict
from testbed.measure.record import Machine, Run
from tests.unit.measure import handmade


def carried(share: float, cpu_fraction: float) -> Run:
    """A run of which so much of the offered load was delivered."""
    run = handmade.run()
    run.machine = Machine(cpu_fraction=cpu_fraction, softnet_drops=1, agents=4)
    for flow in run.flows:
        run.totals[flow.name].bytes_delivered = round(share * flow.offered_bps * handmade.STOP_S / 8)
    return run


@pytest.mark.parametrize(("share", "cpu", "fits"), [(0.5, 1.0, 0.4), (0.5, 0.8, 0.5), (1.0, 1.0, 0.8)])
def test_what_fits_is_what_was_carried_at_less_cpu(share: float, cpu: float, fits: float) -> None:
    assert fitting.share_that_fits(carried(share, cpu)) == pytest.approx(fits, rel=1e-6)


def test_no_number_is_made_up() -> None:
    generic = "lower the lab's rates or the load, or run fewer hosts"
    assert fitting.advice(carried(0.9, 0.5)) == generic  # it fitted by its CPUs: something else was short
    assert fitting.advice(carried(0.0, 1.0)) == generic
    assert fitting.advice(carried(0.5, 0.0)) == generic
    at_once = carried(0.5, 1.0)
    at_once.stop_ns = at_once.start_ns  # ended before its traffic began
    assert fitting.advice(at_once) == generic
    virtual = carried(0.5, 1.0)
    virtual.virtual = True
    assert fitting.advice(virtual) == generic


def test_the_first_reason_says_it_and_no_other() -> None:
    run = carried(0.5, 1.0)
    run.machine.socket_drops = 3
    first, *others = [one.what for one in verdict.overloads(run)]
    assert "about 40% of that load (64 Mb/s in all): multiply load by 0.4" in first
    assert "rates of 8 Mb/s" in first and "2 flows of 4" in first
    assert len(others) == 2 and not any("load" in one for one in others)
