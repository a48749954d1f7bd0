"""How soon an EV is retired after its first loss at the demo's rates, and that no healthy one goes with it.

    h0 .. h3 -- T0-0 -- T1-0 .. T1-3 -- T0-1 -- h4 .. h7      in each of four planes (`demo`)

One rack sends as fast as it can, a path dies silently (`path-silent-full`); each seed draws another link.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from testbed.chaos.scenario import load_scenario
from testbed.chaos.virtual import simulate
from testbed.topology import library
from testbed.topology.labfile import load_lab

SEEDS = (1, 2, 3)
MOST_ROUND_TRIPS, MOST_WINDOW = 1.5, 0.5


def runs(folder: Path) -> list[dict[str, Any]]:
    """The summaries of short runs of the scenario."""
    text = library.find("scenarios", "path-silent-full").read_text()
    for old, new in (("duration: 4 s", "duration: 2 s"), ("at: 2500 ms, for: 1 s", "at: 1500 ms, for: 300 ms")):
        assert old in text
        text = text.replace(old, new)
    file = folder / "short.yaml"
    file.write_text(text)
    scenario = load_scenario(file)
    lab = load_lab(scenario.lab)
    return [simulate(scenario, lab, folder / str(seed), seed=seed, report=False).summary for seed in SEEDS]


def test_within_a_round_trip_and_the_reorder_window_of_half_a_one_at_most(tmp_path: Path) -> None:
    summaries = runs(tmp_path)
    retiring = [summary["faults"][0]["retiring"] for summary in summaries]
    assert [(one["evs"], one["stamped"]) for one in retiring] == [(4, 4)] * len(SEEDS), "by all flows, each stamped"
    assert 0 < max(one["window_round_trips"] for one in retiring) <= MOST_WINDOW
    assert median(one["after_round_trips"] for one in retiring) <= MOST_ROUND_TRIPS
    values = [{row["name"]: row["value"] for row in summary["expectations"]} for summary in summaries]
    assert [one["healthy_evs_retired"] for one in values] == [0] * len(SEEDS)
