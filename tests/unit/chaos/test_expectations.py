"""Every expectation is seen to be met and to be missed, on runs written by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from testbed.chaos.expectations import EXPECTATIONS, Limit, judge
from testbed.measure.jobs import Interruption
from testbed.measure.judgement import Judged
from testbed.measure.record import QpFailed, Run
from tests.unit.measure import handmade
from tests.unit.measure.handmade import PLANE_BPS, ev_change, fault, loss, ns, port_change


def judged(run: Run, name: str, limit: float) -> Judged:
    (row,) = judge(run, [Limit(name, limit)])
    return row


def quiet() -> Run:
    """A run of flows and a job with a fault that nobody noticed."""
    run = handmade.run(faults=(fault(3, 4),))
    run.jobs.append(handmade.job())
    return run


def wrong_byte(run: Run) -> None:
    run.totals["h1>h3"].bytes_wrong = 1


def failed_qp(run: Run) -> None:
    run.events.append(QpFailed(ns(3.5), "h0>h2", "retries exhausted"))


def missing_message(run: Run) -> None:
    run.totals["h2>h0"].messages_delivered -= 1


def dip(run: Run) -> None:
    slow = handmade.run(rate=lambda flow, plane, t_s: PLANE_BPS * (0.7 if 3.2 <= t_s < 3.4 else 1))
    run.received = slow.received


def lasting_dip(run: Run) -> None:
    slow = handmade.run(rate=lambda flow, plane, t_s: PLANE_BPS * (0.9 if 3 <= t_s < 4 else 1))
    run.received = slow.received


def more_than_possible(run: Run) -> None:
    fast = handmade.run(rate=lambda flow, plane, t_s: PLANE_BPS * 1.2)
    run.received = fast.received


def losses_for_half_a_second(run: Run) -> None:
    run.events += [loss(3.01), loss(3.51)]


def eleven_losses(run: Run) -> None:
    run.events += [loss(3.01 + i * 1e-3) for i in range(11)]


def stall(run: Run) -> None:
    slow = handmade.run(rate=lambda flow, plane, t_s: PLANE_BPS * (0.7 if 3 <= t_s < 3.5 else 1))
    run.received = slow.received


def lasting_stall(run: Run) -> None:
    slow = handmade.run(rate=lambda flow, plane, t_s: PLANE_BPS * (0.7 if t_s >= 3 else 1))
    run.received = slow.received


def healthy_ev_retired(run: Run) -> None:
    run.events += [ev_change(3.02, "ASSUMED_BAD", ev=handmade.OTHER_EV)]


def healthy_plane_given_up(run: Run) -> None:
    run.events += [port_change(3.02, False)]


def slow_healing(run: Run) -> None:
    run.events += [ev_change(3.02, "ASSUMED_BAD"), ev_change(4.5, "GOOD")]


def dead_path_in_use(run: Run) -> None:
    run.faults = [replace(run.faults[0], seen=(handmade.seen(5, 3.01, 3.04, 3.05),))]
    run.round_trips = [(ns(2), 10_000_000)]


def no_healing(run: Run) -> None:
    run.events += [ev_change(3.02, "ASSUMED_BAD")]


def interrupted_job(run: Run) -> None:
    run.jobs[0] = handmade.job(interruptions=(Interruption("h0", ns(3), "retries exhausted", 4),))


def half_a_job(run: Run) -> None:
    run.jobs[0] = handmade.job(operations=4)


def slow_job(run: Run) -> None:
    run.jobs.append(handmade.job(of_line_rate=0.5))


def wrong_sum(run: Run) -> None:
    run.jobs[0] = replace(run.jobs[0], bytes_wrong=3)


def one_slow_flow(run: Run) -> None:
    slow = handmade.run(rate=lambda flow, plane, t_s: PLANE_BPS * (0.5 if flow == "h0>h2" else 1))
    run.received = slow.received


def timeout(run: Run) -> None:
    run.events += [replace(loss(3.01), cause="timeout"), loss(3.02)]


MISSES: list[tuple[str, float, Callable[[Run], None], float]] = [
    ("bytes_wrong", 0, wrong_byte, 1),
    ("bytes_wrong", 0, wrong_sum, 3),
    ("interruptions", 0, interrupted_job, 1),
    ("unfinished_operations", 0, half_a_job, 6),
    ("min_busbw_fraction", 0.9, slow_job, 0.5),
    ("qp_errors", 0, failed_qp, 1),
    ("undelivered_messages", 0, missing_message, 1),
    ("min_goodput_fraction", 0.95, dip, 0.7),
    ("min_goodput_of_oracle", 0.95, lasting_dip, 0.9),
    ("goodput_off_oracle", 0.05, lasting_dip, 0.1),
    ("goodput_off_oracle", 0.05, more_than_possible, 0.2),
    ("min_flow_of_offered", 0.95, one_slow_flow, 0.5),
    ("min_fairness", 0.97, one_slow_flow, 3.5**2 / (4 * 3.25)),
    ("timeouts", 0, timeout, 1),
    ("rerouted_within", 100e6, losses_for_half_a_second, 500e6),
    ("packets_lost_per_qp", 10, eleven_losses, 11),
    ("packets_lost", 10, eleven_losses, 11),
    ("max_dip", 0.2, stall, 0.3),
    ("recovery_within", 400e6, stall, 500e6),
    ("recovery_within", 400e6, lasting_stall, float("inf")),
    ("healthy_evs_retired", 0, healthy_ev_retired, 1),
    ("healthy_evs_retired", 0, healthy_plane_given_up, 1),
    ("evs_restored_within", 400e6, slow_healing, 500e6),
    ("evs_restored_within", 400e6, no_healing, float("inf")),
    ("unused_within_round_trips", 3, dead_path_in_use, 4),
]


@pytest.mark.parametrize("name", EXPECTATIONS)
def test_met_when_nothing_happened(name: str) -> None:
    strict = {"fraction": 0.02 if EXPECTATIONS[name].holds == "at_most" else 0.98}.get(EXPECTATIONS[name].unit, 0)
    row = judged(quiet(), name, strict)
    assert row.ok, row


@pytest.mark.parametrize(("name", "limit", "harm", "value"), MISSES)
def test_missed_when_it_did(name: str, limit: float, harm: Callable[[Run], None], value: float) -> None:
    run = quiet()
    harm(run)
    row = judged(run, name, limit)
    assert not row.ok
    assert row.value == pytest.approx(value, rel=0.01)
    assert row.observations > 0


def test_every_expectation_is_seen_to_fail_here() -> None:
    assert {name for name, *_ in MISSES} == set(EXPECTATIONS)


def test_the_limit_itself_is_met() -> None:
    run = quiet()
    eleven_losses(run)
    assert judged(run, "packets_lost_per_qp", 11).ok


def test_without_any_traffic_goodput_is_missed_and_not_met_by_silence() -> None:
    run = handmade.run(rate=lambda flow, plane, t_s: 0)
    assert not judged(run, "min_goodput_fraction", 0.95).ok
    assert not judged(run, "min_goodput_of_oracle", 0.95).ok


def test_rows_come_in_the_scenarios_order() -> None:
    limits = [Limit("qp_errors", 0), Limit("bytes_wrong", 0)]
    assert [row.name for row in judge(quiet(), limits)] == ["qp_errors", "bytes_wrong"]
