"""A comparison in words and numbers: what `compare.json` has, from which the page and the table are made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import isinf
from typing import Any

from testbed.chaos.scenario import Scenario
from testbed.compare import figures
from testbed.compare.columns import Column, Variant
from testbed.compare.figures import Observed
from testbed.measure.figure import Figure, verdicts_of
from testbed.topology.errors import MrclabError
from testbed.topology.labspec import LabSpec

SCHEMA_VERSION = 1


@dataclass
class Compared:
    """A column: what each variant came to with the first seed, and the best one with all of them."""

    column: Column
    spec: LabSpec | None = None
    missing: str = ""  # why there is nothing
    error: MrclabError | None = None  # that ended it; what ran before that counts
    tried: dict[Variant, list[Observed]] = field(default_factory=dict)
    best: Variant | None = None
    runs: list[Observed] = field(default_factory=list)


def told_of(
    scenario: Scenario, compared: Sequence[Compared], said: Sequence[str], seeds: Sequence[int], where: str
) -> dict[str, Any]:
    """All of it for JSON and the page. A time that never came is null, and counted in `never`."""
    rows = figures.rows([run for one in compared for run in one.runs])
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": scenario.name,
        "where": where,
        "seeds": list(seeds),
        "interrupted": "",
        "unlike": list(said),
        "rows": [asdict(row) for row in rows],
        "columns": [_column(one, rows) for one in compared],
    }


def _column(one: Compared, rows: Sequence[Figure]) -> dict[str, Any]:
    low, middle, high = figures.middle_curve(one.runs)
    return {
        "name": one.column.name,
        "words": one.column.words,
        "missing": one.missing,
        "lab": None if one.spec is None else json.loads(one.spec.model_dump_json()),
        "time_dilation": None if one.spec is None else one.spec.time_dilation,
        "best": None if one.best is None else one.best.name,
        "tried": [
            {
                "variant": variant.name,
                "qps": variant.qps,
                "dcqcn": variant.dcqcn,
                "timeout_exponent": variant.timeout_exponent,
                "score_bps": figures.score(runs),
            }
            for variant, runs in one.tried.items()
        ],
        "verdicts": verdicts_of(run.verdict for run in one.runs),
        "reasons": sorted({reason for run in one.runs for reason in run.reasons}),
        "warnings": sorted({warning for run in one.runs for warning in run.warnings}),
        "figures": {row.key: _distribution(one.runs, row.key) for row in rows},
        "curve": {
            "bin_s": one.runs[0].bin_s if one.runs else None,
            "min_bps": low,
            "median_bps": middle,
            "max_bps": high,
        },
        "runs": [
            {
                "seed": run.seed,
                "verdict": run.verdict,
                "figures": {key: None if isinf(value) else value for key, value in run.figures.items()},
            }
            for run in one.runs
        ],
    }


def _distribution(runs: Sequence[Observed], key: str) -> dict[str, Any] | None:
    found = figures.of(runs, key)
    return None if found is None else found.as_dict()
