"""Stretches between faults, each against the capacity oracle."""

import pytest

from testbed.measure import phases
from tests.unit.measure import handmade
from tests.unit.measure.handmade import LINK, NIC_LINK, PLANE_BPS, STOP_S, fault, ns


def test_a_run_without_faults_is_one_phase() -> None:
    (phase,) = phases.phases(handmade.run())
    assert (phase.start_ns, phase.stop_ns, phase.down) == (ns(1), ns(STOP_S), [])
    assert phase.goodput_bps == pytest.approx(16 * PLANE_BPS, rel=1e-3)
    assert phase.oracle_bps == pytest.approx(16 * PLANE_BPS, rel=1e-6)
    assert phase.of_oracle == pytest.approx(1, rel=1e-3)


def test_overlapping_faults_cut_the_time_where_the_set_changes() -> None:
    run = handmade.run(faults=(fault(2, 4), fault(3, 5, NIC_LINK, number=2)))
    assert [(phase.start_ns, phase.down) for phase in phases.phases(run)] == [
        (ns(1), []),
        (ns(2), [LINK]),
        (ns(3), sorted([LINK, NIC_LINK])),
        (ns(4), [NIC_LINK]),
        (ns(5), []),
    ]


def test_the_oracle_knows_what_a_dead_nic_link_costs() -> None:
    run = handmade.run(offered_bps=80e6)
    healthy = phases.oracle_bps(run, frozenset())
    damaged = phases.oracle_bps(run, frozenset({(NIC_LINK, 0.0)}))
    assert damaged / healthy == pytest.approx((2 + 2 * 0.75) / 4, rel=1e-6)


def test_goodput_of_a_phase_leaves_out_the_time_to_settle() -> None:
    run = handmade.run(rate=lambda flow, plane, t_s: 0 if 3 <= t_s < 3.3 else PLANE_BPS, faults=(fault(3, 4),))
    assert phases.phases(run)[1].goodput_bps == pytest.approx(16 * PLANE_BPS, rel=1e-3)


def test_a_phase_shorter_than_a_bin_after_settling_says_nothing() -> None:
    run = handmade.run(faults=(fault(3, 3.4),))
    assert phases.phases(run)[1].goodput_bps is None
    assert phases.phases(run)[1].of_oracle is None
