"""What needs no lab and no root: a scenario in virtual time, and the planner's arithmetic."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from command import Mrclab, only_line, parsed

SCENARIO = """
lab: tiny
duration: 1200 ms
warmup: 300 ms
workloads: [{kind: write_bw, pairs: across, load: 50%}]
faults: [{kind: link-down, target: "p0t0-0:p0t1-1", at: 500 ms, for: 200 ms}]
expect: {bytes_wrong: 0, qp_errors: 0, undelivered_messages: 0, rerouted_within: 100 ms}
"""


def test_a_simulation_is_the_same_whatever_python_hashes_like(mrclab: Mrclab, tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(SCENARIO)
    seen = []
    for number in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": number}
        answer = mrclab("sim", "short.yaml", "--json", "--out", number, env=environment)
        assert answer.returncode == 0, answer.stderr
        assert parsed(answer)["virtual"] is True
        seen.append({file.name: file.read_bytes() for file in (tmp_path / number).iterdir()})
    assert seen[0] == seen[1]
    assert set(seen[0]) >= {"summary.json", "events.jsonl", "samples.jsonl", "report.html"}


def test_a_simulation_ends_with_its_verdicts_code(mrclab: Mrclab, tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(SCENARIO)
    control = mrclab("sim", "short.yaml", "--real-rates", "--set", "transport.retire_evs=false")
    assert control.returncode == 1
    assert "FAIL" in control.stdout and "100 Gb/s" in control.stderr
    (tmp_path / "wrong.yaml").write_text(SCENARIO.replace("p0t1-1", "p0t1-9"))
    wrong = mrclab("sim", "wrong.yaml")
    assert wrong.returncode == 2
    assert "wrong.yaml" in only_line(wrong)


def test_the_plan_of_the_papers_fabric(mrclab: Mrclab) -> None:
    told = parsed(mrclab("plan", "--hosts", "131072", "--radix", "64", "--planes", "8", "--json"))
    assert sum(told["multi_plane"]["switches"].values()) == 6144
    assert told["single_plane"]["switches"] is None
    table = mrclab("plan")
    assert table.returncode == 0
    assert "6,144" in table.stdout and "0.39%" in table.stdout and "3.12%" in table.stdout
    too_many = mrclab("plan", "--hosts", "200000")
    assert too_many.returncode == 2
    assert "131072" in only_line(too_many)


def test_who_reads_may_go_away_early_and_the_exit_code_stays(mrclab: Mrclab, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    (tmp_path / "short.yaml").write_text(SCENARIO)
    for verb, code in (
        (["plan"], 0),
        (["plan", "--json"], 0),
        (["sim", "short.yaml", "--set", "expect.packets_lost=0"], 1),
    ):
        answer = mrclab(*verb, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
        assert answer.returncode == code, answer.stderr
        assert "Traceback" not in answer.stderr and "Broken" not in answer.stderr
    os.close(writing)
