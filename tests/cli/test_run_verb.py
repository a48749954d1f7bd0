"""Whole runs from the command line, judged: links flap and nobody notices, or the verdict says who did."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from command import TINY, Answer, Mrclab, parsed

from testbed.topology import library

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(240)]

INVALID = 4  # exit code
TRIES = 4
SUMMARY_KEYS = {"schema_version", "scenario", "lab", "seed", "verdict", "expectations", "flows", "faults", "machine"}


def run(mrclab: Mrclab, *arguments: str) -> Answer:
    """A run that is valid: one in which the machine was the bottleneck says nothing, and is done again."""
    for _ in range(TRIES):
        answer = mrclab(*arguments)
        if answer.returncode != INVALID:
            break
    return answer


def test_the_demonstration_passes_and_leaves_nothing(mrclab: Mrclab, tmp_path: Path) -> None:
    answer = run(mrclab, "demo")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "LINK CUT" in answer.stdout and "back in use" in answer.stdout and "PASS" in answer.stdout
    report = (tmp_path / "runs" / "demo" / "report.html").read_text()
    assert "<svg" in report and "http" not in report.replace("http://www.w3.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "")


def test_link_flap_passes_and_fails_when_no_ev_is_retired(mrclab: Mrclab, tmp_path: Path) -> None:
    try:
        good = parsed(run(mrclab, "run", "link-flap", "--json", "--out", "good"))
        assert good["verdict"] == "pass", good
        assert good.keys() >= SUMMARY_KEYS
        assert all(flow["bytes_wrong"] == 0 and flow["bytes_delivered"] > 0 for flow in good["flows"])
        assert [fault["target"] for fault in good["faults"]][:1] == ["p0t0-0:p0t1-1"]
        stamps = [json.loads(line) for line in (tmp_path / "good" / "samples.jsonl").read_text().splitlines()]
        assert stamps
        assert (tmp_path / "good" / "events.jsonl").stat().st_size > 0

        control = run(mrclab, "run", "link-flap", "--json", "--out", "bad", "--set", "transport.retire_evs=false")
        assert control.returncode == 1
        missed = {one["name"] for one in parsed(control)["expectations"] if not one["ok"]}
        assert "rerouted_within" in missed
        assert all(flow["bytes_wrong"] == 0 for flow in parsed(control)["flows"])
    finally:
        mrclab("down", "demo")


def test_full_load_follows_the_capacity_oracle(mrclab: Mrclab, tmp_path: Path) -> None:
    """Without marks and trims the spray is even, like the oracle's; with marks it may do better."""
    even = tmp_path / "even.yaml"
    even.write_text(library.find("topologies", "demo").read_text() + "queue:\n  ecn: false\n  trimming: false\n")
    try:
        spray = "transport.congestion=fixed", "expect.goodput_off_oracle=5%"
        options = [part for value in spray for part in ("--set", value)]
        summary = parsed(run(mrclab, "run", "full-load", "--lab", str(even), *options, "--json"))
        assert summary["verdict"] == "pass", summary
        healthy, damaged = summary["phases"][0], next(phase for phase in summary["phases"] if phase["down"])
        assert damaged["oracle_bps"] < healthy["oracle_bps"]
        assert damaged["goodput_bps"] < healthy["goodput_bps"]
        assert mrclab("down", "even").returncode == 0

        assert parsed(run(mrclab, "run", "full-load", "--json"))["verdict"] == "pass"
    finally:
        mrclab("down", "even")
        mrclab("down", "demo")


@pytest.mark.skipif((os.cpu_count() or 1) > 4, reason="with so many CPUs agents are at their limit before the machine")
def test_a_run_that_the_machine_cannot_carry_is_invalid_and_what_it_advises_is_carried(
    mrclab: Mrclab, tmp_path: Path
) -> None:
    (tmp_path / "cli-over.yaml").write_text(TINY + "rates: {host: 2 Gb/s, fabric: 2 Gb/s}\n")
    scenario = tmp_path / "over.yaml"
    scenario.write_text(
        "lab: cli-over\nduration: 3 s\nwarmup: 1 s\nworkloads:\n"
        "  - {kind: write_bw, pairs: across, message: 32 KB, load: 90%}\nexpect:\n  bytes_wrong: 0\n"
    )
    command = ["run", str(scenario), "--lab", str(tmp_path / "cli-over.yaml"), "--json"]
    try:
        over = mrclab(*command)
        assert over.returncode == INVALID, over.stdout
        told = " ".join(parsed(over)["reasons"])
        assert "through of what the fabric carries" in told
        advised = re.search(r"multiply load by ([0-9.]+)", told)
        assert advised is not None and float(advised[1]) < 0.5
        load = f"workloads.0.load={90 * float(advised[1]):.3g}%"
        fitted = run(mrclab, *command, "--set", load, "--set", "expect.min_flow_of_offered=90%")
        assert fitted.returncode == 0, fitted.stdout
    finally:
        mrclab("down", "cli-over")
