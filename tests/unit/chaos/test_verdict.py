"""Pass, fail, or invalid: an overloaded machine is never taken for a bad network."""

from collections.abc import Callable

import pytest

from testbed.chaos import verdict
from testbed.chaos.expectations import Limit
from testbed.measure.record import Machine, Run
from tests.unit.measure import handmade

LIMITS = [Limit("bytes_wrong", 0.0), Limit("undelivered_messages", 0.0)]


def on_a_machine(**figures: float) -> Run:
    run = handmade.run()
    run.machine = Machine(agents=4, **figures)  # type: ignore[arg-type]
    return run


def test_pass_when_all_is_met() -> None:
    run = on_a_machine(cpu_fraction=0.7, late_timers=20)
    judgement = verdict.decide(run, LIMITS)
    assert (judgement.verdict, judgement.reasons) == ("pass", [])
    assert verdict.EXIT_CODES[judgement.verdict] == 0


def test_fail_names_what_was_missed() -> None:
    run = on_a_machine()
    run.totals["h0>h2"].messages_delivered = 0
    judgement = verdict.decide(run, LIMITS)
    assert (judgement.verdict, judgement.reasons) == ("fail", ["undelivered_messages"])
    assert verdict.EXIT_CODES[judgement.verdict] == 1


VOID: dict[str, tuple[Callable[[], Run], str]] = {
    "sockets": (lambda: on_a_machine(socket_drops=1), "1 packets were dropped at agents' sockets"),
    "softnet": (lambda: on_a_machine(softnet_drops=3), "the kernel dropped 3 packets"),
    "events": (lambda: on_a_machine(events_dropped=2), "2 events of agents were lost"),
}
SLOW: dict[str, tuple[Callable[[], Run], str]] = {
    "cpu": (lambda: on_a_machine(cpu_fraction=0.99), "the CPUs were 99% busy"),
    "timers": (lambda: on_a_machine(late_timers=2 * 4 * 8 + 1), "agents woke up late 65 times"),
}


@pytest.mark.parametrize("case", VOID)
def test_invalid_when_the_machine_is_in_the_figures_whatever_these_say(case: str) -> None:
    make, reason = VOID[case]
    for delivered in (10, 0):
        run = make()
        run.totals["h0>h2"].messages_delivered = delivered
        judgement = verdict.decide(run, LIMITS)
        assert judgement.verdict == "invalid"
        assert verdict.EXIT_CODES[judgement.verdict] == 4
        assert judgement.reasons[0].startswith(reason)
        assert ";" in judgement.reasons[0]  # advice


@pytest.mark.parametrize("case", SLOW)
def test_a_slow_machine_excuses_what_was_missed(case: str) -> None:
    make, reason = SLOW[case]
    run = make()
    run.totals["h0>h2"].messages_delivered = 0
    judgement = verdict.decide(run, LIMITS)
    assert judgement.verdict == "invalid"
    assert judgement.reasons[0].startswith(reason)


@pytest.mark.parametrize("case", SLOW)
def test_what_was_met_on_a_slow_machine_is_met_with_a_warning(case: str) -> None:
    make, reason = SLOW[case]
    judgement = verdict.decide(make(), LIMITS)
    assert (judgement.verdict, judgement.reasons) == ("pass", [])
    assert judgement.warnings[0].startswith(reason)


@pytest.mark.parametrize(("plane_bps", "cpu", "share"), [(2e6, 0.95, 0.2), (2e6, 0.85, None), (8e6, 1.0, None)])
def test_a_run_of_which_busy_cpus_let_little_through_is_invalid_whatever_was_met(
    plane_bps: float, cpu: float, share: float | None
) -> None:
    """10 Mb/s are offered on each plane."""
    run = handmade.run(lambda flow, plane, t_s: plane_bps)
    run.machine = Machine(agents=4, cpu_fraction=cpu)
    found = verdict.held_back(run)
    assert found == (None if share is None else pytest.approx(share, rel=0.1))
    judgement = verdict.decide(run, LIMITS)
    assert judgement.verdict == ("pass" if share is None else "invalid")
    if share is not None:
        assert "the CPUs were 95% busy and let 20% through of what the fabric carries; " in judgement.reasons[0]
    run.virtual = True
    assert verdict.held_back(run) is None


def test_slowness_does_not_excuse_packets_sent_into_a_dead_path() -> None:
    run = on_a_machine(cpu_fraction=1.0, late_timers=10_000)
    run.faults = [handmade.fault(3, 4)]
    run.events += [handmade.loss(3.01 + i * 1e-3) for i in range(11)]
    run.totals["h0>h2"].messages_delivered = 0
    judgement = verdict.decide(run, [*LIMITS, Limit("packets_lost_per_qp", 10)])
    assert (judgement.verdict, judgement.reasons) == ("fail", ["undelivered_messages", "packets_lost_per_qp"])
    assert len(judgement.warnings) == 2
    run.machine.softnet_drops = 1  # but these may be among them
    assert verdict.decide(run, [Limit("packets_lost_per_qp", 10)]).verdict == "invalid"


def test_a_wrong_byte_fails_on_any_machine() -> None:
    run = on_a_machine(socket_drops=5)
    run.totals["h0>h2"].bytes_wrong = 1
    judgement = verdict.decide(run, LIMITS)
    assert (judgement.verdict, judgement.reasons) == ("fail", ["bytes_wrong"])
    assert "5 packets" in judgement.warnings[0]


def test_a_run_that_was_cut_short_is_invalid() -> None:
    run = on_a_machine()
    run.interrupted = "ended early by SIGINT"
    assert verdict.decide(run, LIMITS).reasons == ["ended early by SIGINT"]
