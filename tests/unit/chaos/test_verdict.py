"""Pass, fail, or invalid: an overloaded machine is never taken for a bad network."""

from collections.abc import Callable

import pytest

from testbed.chaos import verdict
from testbed.measure.record import Machine, Run
from tests.unit.measure import handmade

LIMITS = {"bytes_wrong": 0.0, "undelivered_messages": 0.0}


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


OVERLOADS: dict[str, tuple[Callable[[], Run], str]] = {
    "sockets": (lambda: on_a_machine(socket_drops=1), "1 packets were dropped at the agents' sockets"),
    "softnet": (lambda: on_a_machine(softnet_drops=3), "the kernel dropped 3 packets"),
    "cpu": (lambda: on_a_machine(cpu_fraction=0.99), "the CPUs were 99% busy"),
    "timers": (lambda: on_a_machine(late_timers=2 * 4 * 8 + 1), "agents woke up late 65 times"),
    "events": (lambda: on_a_machine(events_dropped=2), "2 events of agents were not collected"),
}


@pytest.mark.parametrize("case", OVERLOADS)
def test_invalid_when_the_machine_was_the_bottleneck_whatever_the_figures_say(case: str) -> None:
    make, reason = OVERLOADS[case]
    for delivered in (10, 0):
        run = make()
        run.totals["h0>h2"].messages_delivered = delivered
        judgement = verdict.decide(run, LIMITS)
        assert judgement.verdict == "invalid"
        assert verdict.EXIT_CODES[judgement.verdict] == 4
        assert judgement.reasons[0].startswith(reason)
        assert ";" in judgement.reasons[0]  # advice


def test_a_wrong_byte_fails_on_any_machine() -> None:
    run = on_a_machine(socket_drops=5)
    run.totals["h0>h2"].bytes_wrong = 1
    judgement = verdict.decide(run, LIMITS)
    assert judgement.verdict == "fail"
    assert judgement.reasons[0] == "bytes_wrong"


def test_a_run_that_was_cut_short_is_invalid() -> None:
    run = on_a_machine()
    run.interrupted = "ended early by SIGINT"
    assert verdict.decide(run, LIMITS).reasons == ["ended early by SIGINT"]
