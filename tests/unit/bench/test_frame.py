"""The frame of the benches: medians, ratios, comparisons with an earlier result, wrong files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.bench import frame
from testbed.bench.frame import Alternation, Bench, Say
from testbed.topology.errors import InputError

RATIOS = [0.5, 0.9, 0.6]


def silent(_: str) -> None:
    pass


@contextmanager
def _three(say: Say) -> Iterator[Alternation]:
    readings = iter(RATIOS)
    yield lambda: {"ratio": next(readings), "packets_per_s": 10.0}


HIGHER = Bench(title="three", prepare=_three, ratio_of="a / b", alternations=3, tolerance=0.1)
LOWER = replace(HIGHER, better="lower")


def test_the_figure_is_the_median_of_the_ratios() -> None:
    result = frame.measure(HIGHER, None, silent)
    assert (result["ratio"], result["ratio_min"], result["ratio_max"]) == (0.6, 0.5, 0.9)
    assert result["medians"] == {"packets_per_s": 10.0}
    assert [reading["ratio"] for reading in result["readings"]] == RATIOS
    assert frame.measure(HIGHER, 1, silent)["ratio"] == RATIOS[0]


def test_a_bench_without_a_yardstick_has_no_ratio() -> None:
    assert "ratio" not in frame.summary(HIGHER, [{"seconds": 1.0}])


@pytest.mark.parametrize(
    ("bench", "before", "ok"),
    [(HIGHER, 0.66, True), (HIGHER, 0.67, False), (HIGHER, 0.1, True), (LOWER, 0.55, True), (LOWER, 0.54, False)],
)
def test_a_ratio_is_worse_beyond_its_tolerance(bench: Bench, before: float, ok: bool) -> None:
    now = {"three": frame.measure(bench, None, silent)}
    (comparison,) = frame.compare({"three": {"ratio": before}}, now)
    assert comparison.ok is ok


def test_only_what_both_have_measured_is_compared() -> None:
    now = {"three": frame.measure(HIGHER, None, silent)}
    before = {"other": {"ratio": 1.0}, "plain": {}}
    comparisons = frame.compare(before, now)
    assert comparisons == []
    assert frame.not_compared(before, comparisons) == ["other"]


def test_a_result_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"schema_version": 1, "benches": {"three": {"ratio": 0.5}}}))
    assert frame.load(file) == {"three": {"ratio": 0.5}}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"benches": {"a": 3}}', '{"benches": {"a": {"ratio": "x"}}}'])
def test_what_is_no_result_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bench.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"bench\.json"):
        frame.load(file)
    with pytest.raises(InputError, match="missing"):
        frame.load(tmp_path / "missing")
