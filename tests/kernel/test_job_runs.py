"""Jobs of ranks on a real lab: sums checked on every rank, queue pairs taken back, a killed rank's job started anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.chaos.runner import RunResult, run_scenario
from testbed.chaos.scenario import load_scenario
from testbed.lab.running import RunningLab
from tests.kernel.labs import lab_like

pytestmark = pytest.mark.kernel

JOBS = """\
lab: co-jobs
duration: 8 s
warmup: 0 s
workloads:
  - {kind: ring_allreduce, hosts: [h0, h2], message: [16 KB, 64 KB], repetitions: 3, qps: 2}
  - {kind: all_to_all, hosts: [h1, h3], message: 32 KB, repetitions: 3}
faults:
  - {kind: link-flap, target: "p0t0-0:p0t1-1", at: 100 ms, for: 50 ms}
expect: {bytes_wrong: 0, interruptions: 0, unfinished_operations: 0}
"""
KILLED = """\
lab: co-jobs
duration: 4 s
warmup: 0 s
workloads:
  - {kind: training, ranks: 4, message: 16 KB, compute: 50 ms, restart_cost: 200 ms}
faults:
  - {kind: agent-restart, target: host h2, at: 1 s, for: 600 ms}
expect: {bytes_wrong: 0}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """A lab like `tiny`, up for all tests of this module."""
    with lab_like("tiny", "co-jobs", tmp_path_factory.mktemp("labs")) as running:
        yield running


def run(lab: RunningLab, folder: Path, text: str) -> RunResult:
    """Other work on the machine may make it invalid: so what was done is looked at, and not the verdict."""
    path = folder / "jobs.yaml"
    path.write_text(text)
    result = run_scenario(load_scenario(path), lab, folder / "out")
    with lab.agents() as agents:
        assert all(answer["qps"] == [] for answer in agents.call("hello").values())
    return result


def told(result: RunResult) -> list[dict[str, Any]]:
    jobs = result.summary["jobs"]
    assert isinstance(jobs, list)
    assert all((job["bytes_wrong"], job["messages_unexpected"]) == (0, 0) for job in jobs)
    return jobs


def test_two_jobs_side_by_side_are_done_and_right_while_a_link_flaps(lab: RunningLab, tmp_path: Path) -> None:
    result = run(lab, tmp_path, JOBS)
    done = [(job["kind"], job["message_bytes"], job["operations"], job["bytes_delivered"]) for job in told(result)]
    assert done == [
        ("ring_allreduce", 16 << 10, 3, 2 * 3 * (16 << 10)),
        ("ring_allreduce", 64 << 10, 3, 2 * 3 * (64 << 10)),
        ("all_to_all", 32 << 10, 3, 2 * 3 * (16 << 10)),
    ]
    assert all(job["interruptions"] == [] and job["busbw_bps"] > 0 for job in told(result))
    assert result.summary["duration_s"] < 8
    assert {f"{flow['src']}>{flow['dst']}" for flow in result.summary["flows"]} == {"h0>h2", "h2>h0", "h1>h3", "h3>h1"}
    assert all(flow["planes"][0]["bytes_received"] > 0 for flow in result.summary["flows"])


def test_a_killed_rank_interrupts_the_job_which_goes_on_with_the_new_agent(lab: RunningLab, tmp_path: Path) -> None:
    [job] = told(run(lab, tmp_path, KILLED))
    [interruption] = job["interruptions"]
    assert (interruption["host"], interruption["why"]) == ("h2", "its agent was killed")
    assert not job["failed"] and job["operations"] > interruption["operations"]
