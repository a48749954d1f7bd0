"""Summaries of many runs: what counts, what does not, and which runs are worst."""

import json
from math import inf
from typing import Any

from testbed.measure.campaign import FIGURES, Campaign
from testbed.measure.distribution import Distribution
from testbed.report.campaign import plot


def summary(verdict: str = "pass", lost: int = 0, rerouted_s: float | None = None) -> dict[str, Any]:
    fault: dict[str, Any] = {figure.key: None for figure in FIGURES if "." not in figure.key} | {
        "ports": {"unused_s": 0.02, "unused_round_trips": None},
        "worst_flow_losses": lost,
        "packets_lost": 2 * lost,
        "rerouted_s": rerouted_s,
        "dip_fraction": 0.01,
        "recovered_s": 0.2,
        "evs_not_restored": 0,
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


def test_what_never_came_back_is_the_worst_and_not_missing() -> None:
    never = summary()
    never["faults"][0] |= {"recovered_s": None, "restored_s": 0.1, "evs_not_restored": 2}
    untouched = summary()
    untouched["faults"][0] |= {"recovered_s": None, "dip_fraction": None}
    told = Campaign({1: summary(), 2: never, 3: untouched}).as_dict([])
    recovered, restored = (told["figures"][key] for key in ("recovered_s", "restored_s"))
    assert (recovered["count"], recovered["min"], recovered["max"]) == (2, 0.2, None)
    assert (restored["count"], restored["never"], restored["max"]) == (1, 1, None)
    assert FIGURES[0].show(restored["max"]) == "never"
    json.dumps(told, allow_nan=False)


def test_the_worst_come_first_each_with_the_command_that_makes_it_again() -> None:
    worst = RUNS.as_dict(["mrclab", "sim", "x"])["worst"]
    assert [one["seed"] for one in worst] == [2, 3, 1, 5]
    assert worst[0]["repeat"] == "mrclab sim x --seed 2"
    spaced = RUNS.as_dict(["mrclab", "sim", "a b.yaml"])["worst"]
    assert spaced[0]["repeat"] == "mrclab sim 'a b.yaml' --seed 2"
    assert worst[0]["why"].startswith("failed packets_lost_per_qp")


def test_what_never_came_is_beyond_the_plots_axis() -> None:
    found = Distribution.of([0.2, inf])
    assert found is not None and "<svg" in plot(FIGURES[0], found)
    none = Distribution.of([inf])
    assert none is not None and "<svg" in plot(FIGURES[0], none)
