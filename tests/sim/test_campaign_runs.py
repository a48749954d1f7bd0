"""A campaign in virtual time: as many runs as asked for, each with its seed; what is there is not made again."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.chaos import campaign
from testbed.chaos.scenario import Scenario, load_scenario
from testbed.chaos.virtual import simulate
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab

TEXT = """
lab: tiny
seed: 20
duration: 900 ms
warmup: 300 ms
workloads:
  - {kind: write_bw, pairs: [[h0, h2]], message: 16 KB, load: 30%}
faults:
  - {kind: link-down, target: "links tier=t0-t1 plane=0 pick=1", at: 500 ms, for: 100 ms, jitter: 50 ms}
expect:
  bytes_wrong: 0
  undelivered_messages: 0
"""


def scenario(folder: Path, text: str = TEXT) -> Scenario:
    path = folder / "often.yaml"
    path.write_text(text)
    return load_scenario(path)


def make(folder: Path, runs: int, text: str = TEXT) -> tuple[campaign.CampaignResult, list[tuple[int, int]]]:
    steps: list[tuple[int, int]] = []
    wanted = scenario(folder, text)
    result = campaign.in_virtual_time(
        wanted, load_lab(wanted.lab), runs, folder / "out", ["again"], lambda *step: steps.append(step)
    )
    return result, steps


def test_runs_are_made_once_and_each_can_be_made_again_by_its_seed(tmp_path: Path) -> None:
    result, steps = make(tmp_path, 3)
    assert (result.told["runs"], result.told["verdicts"]["pass"], result.exit_code) == (3, 3, 0)
    assert steps[0] == (0, 3) and steps[-1] == (3, 3)
    kept = json.loads((tmp_path / "out" / "seed-21.json").read_text())
    again = simulate(scenario(tmp_path), load_lab("tiny"), tmp_path / "again", seed=21)
    assert json.loads(json.dumps(again.summary)) == kept
    targets = {
        json.loads((tmp_path / "out" / f"seed-{seed}.json").read_text())["faults"][0]["at_s"] for seed in (20, 21, 22)
    }
    assert len(targets) == 3

    void = tmp_path / "out" / "seed-22.json"  # as when the machine was the bottleneck
    void.write_text(json.dumps(json.loads(void.read_text()) | {"verdict": "invalid"}))
    (tmp_path / "out" / "seed-21.json").write_text("")  # as after a power cut
    (tmp_path / "out" / ".seed-21").mkdir()  # and what the run had written when it was killed
    stamp = (tmp_path / "out" / "seed-20.json").stat().st_mtime_ns
    result, steps = make(tmp_path, 4)
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert result.told["runs"] == 4
    assert not list((tmp_path / "out").glob(".*"))
    assert (tmp_path / "out" / "seed-20.json").stat().st_mtime_ns == stamp
    page = result.paths["page"].read_text()
    assert "<svg" in page and "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "")


def test_the_folder_of_another_campaign_is_not_mixed_up(tmp_path: Path) -> None:
    make(tmp_path, 1)
    with pytest.raises(InputError, match="holds another campaign"):
        make(tmp_path, 1, TEXT.replace("30%", "40%"))
    (tmp_path / "out" / "of.json").write_text("[")
    with pytest.raises(InputError, match="holds another campaign"):
        make(tmp_path, 1)


def test_each_seed_is_one_that_a_run_can_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="beyond 4294967295"):
        make(tmp_path, 2, TEXT.replace("seed: 20", "seed: 4294967295"))
    assert not (tmp_path / "out").exists()


def test_workers_end_with_a_parent_that_is_killed() -> None:
    program = (
        "import os, time\nfrom testbed.chaos.workers import Workers\n"
        "def one(key):\n    print(os.getpid(), flush=True)\n    time.sleep(600)\n"
        "with Workers() as workers:\n    list(workers.each(one, [1]))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        ended = select.select([worker], [], [], 20)[0]
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(worker, signal.SIGKILL)
    os.close(worker)
    assert ended
