"""A permutation on the kernel and in virtual time: as docs/baselines.md says, in the same order, with ratios alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.chaos.scenario import load_scenario
from testbed.compare import columns
from testbed.compare.engine import compare
from testbed.topology import library
from testbed.topology.labfile import load_lab

pytestmark = [pytest.mark.kernel, pytest.mark.full]

TEXT = """
lab: agree.yaml
seed: 1
duration: 5 s
warmup: 2 s
workloads:
  - {kind: write_bw, pairs: permutation, message: 32 KB, load: full}
"""
SEEDS = range(1, 4)
TOLERANCE = 0.15  # of a mean over the seeds beside MRC's: which flows meet is another draw in the kernel's hash


def goodputs(folder: Path, *, virtual: bool) -> dict[str, float]:
    """Of each column as a share of MRC's, means over the seeds; and of RoCE with one QP, with the first seed."""
    path, lab = folder / "permutation.yaml", folder / "agree.yaml"
    path.write_text(TEXT)
    lab.write_text(library.find("topologies", "demo").read_text().replace("20 Mb/s", "10 Mb/s"))  # leaves CPU over
    made = compare(
        load_scenario(path),
        load_lab(lab),
        folder / ("sim" if virtual else "kernel"),
        lambda text: None,
        wanted=columns.find(["mrc", "mrc-ecmp", "roce"]),
        seeds=SEEDS,
        qps=(1, 8),
        profiles=("gentle",),
        virtual=virtual,
    )
    told: list[dict[str, Any]] = made.told["columns"]
    # other work on the machine may make a run not valid: so all count here, as they are
    runs = {one["name"]: [run["figures"] for run in one["runs"]] for one in told}
    assert all(len(many) == len(SEEDS) and not any(run["bytes_wrong"] for run in many) for many in runs.values())
    means = {name: sum(run["goodput_bps"] for run in many) / len(many) for name, many in runs.items()}
    [one_qp] = (setting["score_bps"] for setting in told[2]["tried"] if setting["qps"] == 1)
    return {name: value / means["mrc"] for name, value in {**means, "roce, 1 QP": one_qp}.items()}


def test_goodput_beside_mrcs_is_alike_and_one_queue_pair_carries_least(tmp_path: Path) -> None:
    kernel, virtual = (goodputs(tmp_path, virtual=which) for which in (False, True))
    for name in ("mrc-ecmp", "roce"):
        assert kernel[name] == pytest.approx(virtual[name], rel=TOLERANCE), (kernel, virtual)
    assert min(kernel, key=kernel.__getitem__) == min(virtual, key=virtual.__getitem__) == "roce, 1 QP"
