"""Summaries of many runs: what counts, what does not, and which runs are worst."""

from typing import Any

from testbed.measure.campaign import FIGURES, Campaign


def summary(verdict: str = "pass", lost: int = 0, rerouted_s: float | None = None) -> dict[str, Any]:
    fault: dict[str, Any] = {figure.key: None for figure in FIGURES if "." not in figure.key} | {
        "ports": {"unused_s": 0.02, "unused_round_trips": None},
        "worst_flow_losses": lost,
        "packets_lost": 2 * lost,
        "rerouted_s": rerouted_s,
        "dip_fraction": 0.01,
    }
    return {
        "verdict": verdict,
        "reasons": ["packets_lost_per_qp"] if verdict == "fail" else [],
        "faults": [fault],
        "flows": [{"bytes_wrong": 0}],
        "jobs": [],
    }


RUNS = Campaign(
    {
        1: summary(lost=3, rerouted_s=0.01),
        2: summary("fail", lost=2, rerouted_s=0.5),
        3: summary(lost=9, rerouted_s=0.02),
        4: summary("invalid", lost=1000, rerouted_s=9.0),
        5: summary(),
    }
)


def test_runs_that_say_nothing_count_for_nothing_but_their_number() -> None:
    told = RUNS.as_dict(["mrclab", "run", "x"])
    assert told["verdicts"] == {"pass": 3, "fail": 1, "invalid": 1}
    assert (told["runs"], told["faults"], told["pass_share"]) == (5, 4, 0.75)
    assert told["figures"]["worst_flow_losses"]["max"] == 9
    assert list(told["not_valid"]) == [4]


def test_a_fault_without_anything_to_measure_is_in_no_distribution() -> None:
    told = RUNS.as_dict([])["figures"]
    assert told["rerouted_s"]["count"] == 3
    assert told["restored_s"] is told["ports.unused_round_trips"] is None
    assert told["ports.unused_s"]["median"] == 0.02


def test_the_worst_come_first_each_with_the_command_that_makes_it_again() -> None:
    worst = RUNS.as_dict(["mrclab", "sim", "x"])["worst"]
    assert [one["seed"] for one in worst] == [2, 3, 1, 5]
    assert worst[0]["repeat"] == "mrclab sim x --seed 2"
    assert worst[0]["why"].startswith("failed packets_lost_per_qp")
