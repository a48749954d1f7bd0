"""Links that flap all the time, under load (paper, Fig. 5): nothing is wrong, hangs, or leaks.

A session flaps the links of `tiny` for some seconds; `--full` gives `demo` a thousand faults.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.chaos import by_hand
from testbed.chaos.runner import run_scenario
from testbed.chaos.scenario import load_scenario
from testbed.fabric import netns
from testbed.fabric.observe import snapshot
from testbed.lab import lifecycle, state
from testbed.lab.running import open_lab
from testbed.topology.labfile import load_lab

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300)]

NAME = "ch-storm"
MORE_MEMORY = 1.25  # an agent keeps its last samples and events, up to a limit: so much it may grow
STORM = """\
lab: {lab}
seed: {seed}
duration: {seconds} s
workloads:
  - {{kind: write_bw, pairs: across, message: 32 KB, load: 30%}}
faults:
  - {{kind: link-down, target: links tier=t0-t1, end: far, at: 500 ms, mtbf: {mtbf}, mttr: 80 ms}}
expect:
  bytes_wrong: 0
  qp_errors: 0
  undelivered_messages: 0
"""


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def of_lab() -> set[str]:
    """Its namespaces; other labs of this machine come and go."""
    return {name for name in netns.names() if name.startswith(f"{NAME}.")}


def memory_kb(pid: int) -> int:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS:"))


def kernel_state() -> Any:
    """Of all nodes, ports' settings included; no fault is in and no queue pair is left."""
    with open_lab(NAME) as lab, lab.agents() as agents:
        assert by_hand.active(lab) == []
        assert all(answer["qps"] == [] for answer in agents.call("hello").values())
        return snapshot(lab.kernel, lab.clos.nodes, lab.port_map)


def storm(folder: Path, seed: int, seconds: int, mtbf: str) -> int:
    """Run one; how many faults there were. Whether the machine kept up is not asked here."""
    path = folder / "storm.yaml"
    path.write_text(STORM.format(lab=NAME, seed=seed, seconds=seconds, mtbf=mtbf))
    with open_lab(NAME) as lab:
        result = run_scenario(load_scenario(path), lab, folder / "out", report=False)
    values = {row["name"]: row["value"] for row in result.summary["expectations"]}
    assert values == {"bytes_wrong": 0, "qp_errors": 0, "undelivered_messages": 0}
    assert result.summary["interrupted"] == ""
    assert sum(flow["bytes_delivered"] for flow in result.summary["flows"]) > 0
    assert all(fault["for_s"] is not None for fault in result.summary["faults"])
    return len(result.summary["faults"])


@pytest.mark.parametrize(
    ("topology", "seconds", "mtbf", "faults"),
    [("tiny", 5, "600 ms", 20), pytest.param("demo", 70, "2 s", 1000, marks=pytest.mark.full)],
)
def test_a_storm_of_flaps_leaves_nothing_wrong_and_nothing_behind(
    lab_file: Callable[[str, str], Path],
    tmp_path: Path,
    seed: int,
    topology: str,
    seconds: int,
    mtbf: str,
    faults: int,
) -> None:
    path = lab_file(topology, NAME)
    lifecycle.up(load_lab(path), path)
    pids = list(state.require_up(NAME).agents.values())
    storm(tmp_path, seed + 1, 3, mtbf)  # what is made once is made
    files, own_files = [open_files(pid) for pid in pids], open_files(os.getpid())
    memory = [memory_kb(pid) for pid in pids]
    namespaces, before = of_lab(), kernel_state()

    assert storm(tmp_path, seed, seconds, mtbf) >= faults

    assert kernel_state() == before
    assert (of_lab(), open_files(os.getpid())) == (namespaces, own_files)
    deadline = time.monotonic() + 5
    while any(open_files(pid) > then for pid, then in zip(pids, files, strict=True)):  # until it sees that we hung up
        assert time.monotonic() < deadline, ([open_files(pid) for pid in pids], files)
        time.sleep(0.05)
    grown = [memory_kb(pid) / then for pid, then in zip(pids, memory, strict=True)]
    assert all(share <= MORE_MEMORY for share in grown), grown
    lifecycle.down(NAME)
