"""Comparisons in virtual time: all columns, all settings, one table; and what makes one end otherwise than with 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.chaos.scenario import load_scenario
from testbed.compare import columns
from testbed.compare.engine import Comparison, compare
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab

FLAP = """
lab: tiny
seed: 4
duration: 1 s
warmup: 300 ms
workloads:
  - {kind: write_bw, pairs: across, load: full}
faults:
  - {kind: link-flap, target: "p1t0-0:p1t1-1", at: 600 ms, for: 100 ms}
expect: {bytes_wrong: 0}
"""


def run(folder: Path, text: str = FLAP, names: str = "mrc,mrc-ecmp,roce,roce-bgp", **options: Any) -> Comparison:
    path = folder / "flap.yaml"
    path.write_text(text)
    scenario = load_scenario(path)
    given = {"seeds": (4, 5), "qps": (1, 2), "profiles": ("published",), "virtual": True, "tell": lambda text: None}
    wanted = columns.find(names.split(","))
    return compare(scenario, load_lab(scenario.lab), folder / "out", wanted=wanted, **{**given, **options})


def test_columns_side_by_side(tmp_path: Path) -> None:
    comparison = run(tmp_path)
    told = json.loads(comparison.paths["json"].read_text())
    assert comparison.exit_code == 0 and not told["interrupted"]
    mrc, ecmp, roce, bgp = told["columns"]
    assert bgp["missing"] and not any(one["missing"] for one in (mrc, ecmp, roce))
    asked = [(one["qps"], one["timeout_exponent"]) for one in roce["tried"]]
    assert asked[:2] == [(1, None), (2, None)] and not mrc["tried"]
    better = max(roce["tried"][:2], key=lambda one: one["score_bps"])  # with the shortest timeout as well
    assert asked[2:] == [(better["qps"], 5)]
    assert roce["best"] == max(roce["tried"], key=lambda one: one["score_bps"])["variant"]
    for column in (mrc, ecmp, roce):
        assert [one["seed"] for one in column["runs"]] == [4, 5]
        assert column["figures"]["bytes_wrong"]["max"] == 0
        assert column["figures"]["workloads[0].min_flow_share"]["count"] == 2
        assert len(column["curve"]["median_bps"]) == 10 and max(column["curve"]["median_bps"]) > 0
    share = [one["figures"]["workloads[0].min_flow_share"]["median"] for one in (mrc, roce)]
    assert share[0] > share[1], "hashed flows collide"
    page = comparison.paths["page"].read_text()
    assert "What is unlike" in page and "roce: settings tried" in page and "roce-bgp is not here" in page


def test_the_same_seeds_are_the_same_comparison(tmp_path: Path) -> None:
    told = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        told.append(run(folder, names="mrc", seeds=(4,)).paths["json"].read_text())
    assert told[0] == told[1]


def test_what_is_there_is_not_run_again_unless_it_was_not_valid(tmp_path: Path) -> None:
    told: list[str] = []
    first = run(tmp_path, names="roce", seeds=(4,))
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("roce-*-seed-*.json")}
    assert len(kept) == 3
    again = run(tmp_path, names="roce", seeds=(4,), tell=told.append)
    assert again.told == first.told and told[0].endswith("2 of these runs are there already")

    void = tmp_path / "out" / "roce-2-published-seed-4.json"  # as when the machine was the bottleneck
    void.write_text(json.dumps(json.loads(void.read_text()) | {"verdict": "invalid"}))
    more = run(tmp_path, names="roce", seeds=(4, 5))
    assert [one["seed"] for one in more.told["columns"][0]["runs"]] == [4, 5]
    made = {name for name, stamp in kept.items() if (tmp_path / "out" / name).stat().st_mtime_ns != stamp}
    assert made == {void.name} and json.loads(void.read_text())["verdict"] == "pass"

    void.write_text("")  # as when the machine lost its power
    assert len(run(tmp_path, names="roce", seeds=(4,)).told["columns"][0]["runs"]) == 1

    with pytest.raises(InputError, match="holds another comparison"):
        run(tmp_path, FLAP.replace("600 ms", "700 ms"), names="roce", seeds=(4,))


def test_a_first_column_that_misses_an_expectation_is_1(tmp_path: Path) -> None:
    comparison = run(tmp_path, FLAP.replace("bytes_wrong: 0", "packets_lost: 0"), "mrc", seeds=(4,))
    assert comparison.exit_code == 1
    assert comparison.told["columns"][0]["reasons"] == ["packets_lost"]


def test_without_any_column_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no routing protocol runs in virtual time"):
        run(tmp_path, names="roce-bgp")
