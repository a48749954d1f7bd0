"""A path that dies silently is left at once, by the ports' own word; and a busy machine is not taken for a dead path.

    h0 .. h3 -- T0-0 -- T1-0 .. T1-3 -- T0-1 -- h4 .. h7      in each of four planes (`demo`)

A session makes one run of each; `--full` twenty, each with another seed and so another link.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from testbed.chaos.runner import run_scenario
from testbed.chaos.scenario import load_scenario
from testbed.lab.running import RunningLab
from tests.kernel.labs import lab_like

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(400)]

RUNS = [1, pytest.param(20, marks=pytest.mark.full)]
MOST_ROUND_TRIPS = 3  # in the median of 20 runs, from the first packet of an EV that was taken to its last ...
MOST_PACKETS = 5  # ... and packets of the queue pair that loses most
# The bound at full rate: from an EV's first loss by the port's stamp until it is retired, a round trip and the
# reorder window, which is half of one at most; medians.
MOST_TO_RETIRE, MOST_WINDOW = 1.5, 0.5
VOID = {"bytes_wrong": 0, "qp_errors": 0, "undelivered_messages": 0}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with lab_like("demo", "ch-silent", tmp_path_factory.mktemp("labs")) as lab:
        yield lab


def runs(lab: RunningLab, scenario: str, count: int, folder: Path) -> Iterator[dict[str, Any]]:
    """The summaries of so many runs; whatever the verdict, no byte is wrong or missing."""
    for seed in range(1, count + 1):
        result = run_scenario(load_scenario(scenario), lab, folder / str(seed), seed=seed, report=False)
        values = {row["name"]: row["value"] for row in result.summary["expectations"]}
        assert {name: values[name] for name in VOID} == VOID
        yield {**result.summary, "values": values}


@contextmanager
def a_core_taken() -> Iterator[None]:
    """Another process that uses all the time of a core that it can get."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as hog:
        try:
            yield
        finally:
            hog.kill()


@pytest.mark.parametrize("count", RUNS)
@pytest.mark.parametrize("scenario", ["path-silent", "path-silent-full"])
def test_a_silent_path_is_out_of_use_within_some_round_trips(
    demo: RunningLab, tmp_path: Path, scenario: str, count: int
) -> None:
    told = [summary["faults"][0] for summary in runs(demo, scenario, count, tmp_path)]
    margin = 1 if count > 1 else 4  # one run is no median
    assert all(one["ports"]["lost_data"] for one in told), "every path carried something when it died"
    assert median(one["ports"]["unused_round_trips"] for one in told) <= margin * MOST_ROUND_TRIPS, told
    assert median(one["worst_flow_losses"] for one in told) <= margin * MOST_PACKETS, told
    if scenario == "path-silent-full":  # at a small load it takes until the next packets, many round trips of that load
        retiring = [one["retiring"] for one in told]
        assert median(one["after_round_trips"] for one in retiring) <= margin * MOST_TO_RETIRE, retiring
        assert median(one["window_round_trips"] for one in retiring) <= MOST_WINDOW, retiring


@pytest.mark.parametrize("count", RUNS)
def test_beside_a_process_that_takes_a_core_no_healthy_path_is_retired(
    demo: RunningLab, tmp_path: Path, count: int
) -> None:
    with a_core_taken():
        summaries = list(runs(demo, "path-silent", count, tmp_path))
    assert [one["values"]["healthy_evs_retired"] for one in summaries] == [0] * count
    assert all(one["faults"][0]["evs_retired"] == 1 for one in summaries), "and the one that died is"
