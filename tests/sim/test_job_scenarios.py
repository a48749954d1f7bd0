"""Scenario files with jobs and with several queue pairs a pair, in virtual time: recorded, judged, restarted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.chaos.runner import RunResult
from testbed.chaos.scenario import load_scenario
from testbed.chaos.virtual import simulate
from testbed.topology.labfile import load_lab


def play(folder: Path, text: str, *overrides: str, **options: Any) -> RunResult:
    """Simulate a scenario of this text."""
    file = folder / "jobs.yaml"
    file.write_text(text)
    scenario = load_scenario(file, overrides)
    return simulate(scenario, load_lab(scenario.lab), folder / "out", **options)


RING = """
lab: tiny
duration: 4 s
warmup: 200 ms
workloads:
  - {kind: ring_allreduce, ranks: 4, message: [64 KB, 128 KB], repetitions: 4, qps: 2, expect: {interruptions: 0}}
faults:
  - {kind: link-flap, target: "p0t0-0:p0t1-1", at: 300 ms, for: 50 ms}
expect:
  bytes_wrong: 0
  unfinished_operations: 0
  min_busbw_fraction: 10%
"""


@pytest.mark.parametrize("real_rates", [False, True])
def test_sizes_run_one_after_the_other_and_the_run_ends_with_the_last(tmp_path: Path, real_rates: bool) -> None:
    outcome = play(tmp_path, RING, real_rates=real_rates)
    summary = outcome.summary
    assert outcome.verdict == "pass", summary
    assert [(job["message_bytes"], job["operations"]) for job in summary["jobs"]] == [(64 << 10, 4), (128 << 10, 4)]
    assert summary["duration_s"] * (5000 if real_rates else 1) < 4, "not the longest that it may take"
    for job in summary["jobs"]:
        assert job["busbw_bps"] == pytest.approx(1.5 * job["algbw_bps"], rel=1e-6)
        assert 0 < job["operation_s"]["p50"] <= job["operation_s"]["p99"] <= job["operation_s"]["max"]
        assert job["bytes_delivered"] == 4 * 4 * job["message_bytes"] and job["bytes_wrong"] == 0
    moved = {f"{flow['src']}>{flow['dst']}": flow["packets"]["sent"] for flow in summary["flows"]}
    assert set(moved) == {"h0>h1", "h1>h2", "h2>h3", "h3>h0"} and min(moved.values()) > 0
    assert summary["faults"][0]["packets_lost"] > 0, "a job's losses are the fault's"
    met = [one for job in summary["jobs"] for one in job["during"]]
    assert met and met[0]["fault"] == "link-flap p0t0-0:p0t1-1" and met[0]["operations"] >= 1
    report = outcome.paths["report"].read_text()
    assert "ring_allreduce" in report and "while link-flap p0t0-0:p0t1-1" in report


def test_a_job_that_is_too_slow_is_missed(tmp_path: Path) -> None:
    outcome = play(tmp_path, RING, "expect.min_busbw_fraction=95%", "workloads.0.repetitions=1")
    assert outcome.judgement.reasons == ["min_busbw_fraction"]


def test_a_job_that_ends_too_late_is_missed(tmp_path: Path) -> None:
    outcome = play(tmp_path, RING, "workloads.0.repetitions=400", "duration=600 ms")
    assert outcome.verdict == "fail"
    assert outcome.judgement.reasons == ["unfinished_operations"]
    [first] = outcome.summary["jobs"]
    assert 0 < first["operations"] < first["wanted"] == 400 and first["bytes_wrong"] == 0


TRAINING = """
lab: baseline
duration: 4 s
warmup: 0 s
workloads:
  - {kind: training, hosts: [h0, h4, h1, h5], message: 64 KB, compute: 50 ms, restart_cost: 300 ms}
transport: {timeout_exponent: 3, retry_count: 2}
faults:
  - {kind: loss, target: plane 0, loss: 100%, at: 1 s, for: 1500 ms}
expect: {bytes_wrong: 0, interruptions: 0}
"""


def test_training_over_roce_loses_queue_pairs_restarts_and_says_so(tmp_path: Path) -> None:

    outcome = play(tmp_path, TRAINING)
    [job] = outcome.summary["jobs"]
    assert outcome.judgement.reasons == ["interruptions"]
    assert job["interruptions"] and all("retries exhausted" in one["why"] for one in job["interruptions"])
    assert job["bytes_wrong"] == 0 and job["operations"] > 10, "it went on after the fault"
    assert job["elapsed_s"] > 3.5
    without = play(tmp_path, TRAINING.replace(", restart_cost: 300 ms", ""))
    assert [one["failed"] for one in without.summary["jobs"]] == [True]
    assert without.summary["duration_s"] < 4, "nothing is left to wait for"


STREAMS = """
lab: baseline
duration: 1500 ms
warmup: 500 ms
workloads:
  - {kind: write_bw, pairs: [[h0, h4], [h1, h5]], load: full, qps: 8, message: 32 KB}
expect: {bytes_wrong: 0, qp_errors: 0, undelivered_messages: 0}
"""


def test_a_flow_over_several_queue_pairs_is_one_flow(tmp_path: Path) -> None:
    outcome = play(tmp_path, STREAMS)
    assert outcome.verdict == "pass", outcome.summary
    assert [flow["qps"] for flow in outcome.summary["flows"]] == [8, 8]
    [streams] = outcome.summary["workloads"]
    assert streams["flows"] == 2 and streams["min_flow_share"] > 0.5 and 0.5 < streams["jain_index"] <= 1
    assert 0 < streams["completion_s"]["p50"] <= streams["completion_s"]["p99"] <= streams["completion_s"]["max"]
    for flow in outcome.summary["flows"]:
        whole = 8 * flow["bytes_delivered"]
        assert 1.0 * flow["goodput_bps"]["mean"] < whole < 2.5 * flow["goodput_bps"]["mean"], "with warm-up and drain"


def test_queue_pairs_that_share_a_load_take_turns(tmp_path: Path) -> None:
    """Or the flow would come in bursts of as many messages as it has queue pairs."""
    text = STREAMS.replace("load: full", "load: 20%").replace("1500 ms", "2500 ms")
    outcome = play(tmp_path, text)
    for flow in outcome.summary["flows"]:
        assert flow["goodput_bps"]["min_bin"] > 0.8 * flow["goodput_bps"]["mean"] > 0
