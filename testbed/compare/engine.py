"""Runs a comparison: every variant of every column once, then the best of each with all seeds.

In virtual time on all cores; on the kernel lab one column after the other, each on a lab of its own that is brought up
for it and taken down again. A column that cannot be had (a fault that needs a path's name where switches hash, a
program that is not there) is said to be missing, with the reason, and the others go on.
"""

from __future__ import annotations

import json
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from math import isinf
from pathlib import Path
from typing import Any

from testbed.chaos import check
from testbed.chaos.interrupt import Interruptible
from testbed.chaos.runner import RunResult, run_scenario
from testbed.chaos.scenario import Scenario
from testbed.chaos.virtual import simulate
from testbed.compare import columns, figures, page, unlike
from testbed.compare.columns import Column, Entry, Variant
from testbed.compare.figures import Observed
from testbed.lab import lifecycle
from testbed.lab.running import RunningLab, open_lab
from testbed.topology import clos, library
from testbed.topology.errors import InputError, MissingError, MrclabError
from testbed.topology.labspec import LabSpec

SCHEMA_VERSION = 1
JSON_FILE, PAGE_FILE = "compare.json", "compare.html"
_SCRATCH_PREFIX = "mrclab-compare-"

Tell = Callable[[str], None]
Runs = Callable[[Sequence[tuple[Variant, int]]], list[Observed]]


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


@dataclass(frozen=True)
class Comparison:
    """All columns, what is unlike between them, and what was written."""

    told: dict[str, Any]
    compared: list[Compared]
    paths: dict[str, Path]

    @property
    def exit_code(self) -> int:
        """0 done; 1 MRC missed an expectation of the scenario, or a byte was wrong anywhere.

        4: a run was not valid, or the lab of a column broke. 3: no column could be had on this machine.
        """
        runs = [run for one in self.compared for run in one.runs]
        broke = any(one.error and not isinstance(one.error, MissingError) for one in self.compared)
        if not runs and not broke and not self.told["interrupted"]:
            return 3  # the machine lacked something in each column
        if any(run.figures.get("bytes_wrong") for run in runs):
            return 1
        if broke or any(run.verdict == "invalid" for run in runs) or self.told["interrupted"]:
            return 4
        return 1 if any(run.verdict == "fail" for run in runs) else 0


def compare(
    scenario: Scenario,
    spec: LabSpec,
    out_dir: Path,
    tell: Tell,
    *,
    wanted: Sequence[Column],
    seeds: Sequence[int],
    qps: Sequence[int],
    profiles: Sequence[str],
    virtual: bool,
    real_rates: bool = False,
) -> Comparison:
    """Run it all and write `compare.json` and `compare.html`. Raises InputError when no column can be had.

    `real_rates`, in virtual time: at the rates that the labs stand for, all times divided by the time dilation.
    """
    check.check(scenario, clos.build(spec))  # with the lines of what is wrong
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the results cannot go to {out_dir}: {error.strerror}", "name another folder") from None
    compared, entries = [], []
    for column in wanted:
        one = Compared(column)
        tried = columns.variants(column, qps, profiles)
        compared.append(one)
        if virtual and not column.in_virtual_time:
            one.missing = "no routing protocol runs in virtual time"
            continue
        try:
            entry = columns.entry(column, scenario, spec, tried)
        except InputError as error:
            one.missing = str(error)
        else:
            one.spec = entry.spec
            entries.append((one, entry))
    if not entries:
        raise InputError.several([InputError(f"{one.column.name}: {one.missing}") for one in compared])
    with _stage(scenario, virtual, real_rates) as stage:
        for one, entry in entries:
            if not stage.interrupted:
                _run_column(one, entry, seeds, stage, tell)
    errors = [one.error for one, _ in entries if isinstance(one.error, InputError)]
    if len(errors) == len(entries):
        raise InputError.several(errors)
    where = "on the kernel lab" if not virtual else "in virtual time" + (", at real rates" if real_rates else "")
    told = _told(scenario, compared, unlike.said([entry for _, entry in entries]), seeds, where)
    told["interrupted"] = stage.interrupted
    paths = {"json": out_dir / JSON_FILE, "page": out_dir / PAGE_FILE}
    paths["json"].write_text(json.dumps(told, indent=1) + "\n")
    paths["page"].write_text(page.render(told))
    return Comparison(told, compared, paths)


def _run_column(one: Compared, entry: Entry, seeds: Sequence[int], stage: _Stage, tell: Tell) -> None:
    tried = list(entry.scenarios)
    try:
        with stage.lab_of(entry) as runs:
            one.best = tried[0]
            if len(tried) > 1:
                tell(f"{one.column.name}: {len(tried)} settings with seed {seeds[0]}")
                found = runs([(variant, seeds[0]) for variant in tried])
                one.tried = {variant: [observed] for variant, observed in zip(tried, found, strict=False)}
                one.best = max(one.tried, key=lambda variant: figures.score(one.tried[variant]))
                one.runs = list(one.tried[one.best])
            tell(f"{one.column.name}: {one.best.name}, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}")
            one.runs += runs([(one.best, seed) for seed in seeds if seed not in {run.seed for run in one.runs}])
    except MrclabError as error:
        one.missing = f"{error}"
        one.error = error


class _Stage(ABC):
    """Where columns run. `interrupted` says by what, once somebody wishes the end: then nothing more is begun."""

    def __init__(self) -> None:
        self.interrupted = ""

    @abstractmethod
    def lab_of(self, entry: Entry) -> AbstractContextManager[Runs]:
        """The lab of a column, while it is needed: runs variants with seeds, in order, as far as it comes."""


class _InVirtualTime(_Stage):
    def __init__(self, pool: ProcessPoolExecutor, wish: Interruptible, real_rates: bool) -> None:
        super().__init__()
        self._one = partial(_simulated, real_rates)
        self._pool = pool
        self._wish = wish

    @contextmanager
    def lab_of(self, entry: Entry) -> Iterator[Runs]:
        def runs(wanted: Sequence[tuple[Variant, int]]) -> list[Observed]:
            if self.interrupted:
                return []
            waiting = [
                self._pool.submit(self._one, entry.scenarios[variant], entry.spec, seed) for variant, seed in wanted
            ]
            found = []
            for future in waiting:
                observed = future.result()
                if self._wish.signal_name or observed.interrupted:
                    self.interrupted = observed.interrupted or f"ended early by {self._wish.signal_name}"
                    self._pool.shutdown(wait=False, cancel_futures=True)
                    break
                found.append(observed)
            return found

        yield runs


class _OnTheKernel(_Stage):
    def __init__(self, source: Path) -> None:
        super().__init__()
        self._source = source

    @contextmanager
    def lab_of(self, entry: Entry) -> Iterator[Runs]:
        made = lifecycle.up(entry.spec, self._source)
        try:
            with open_lab(entry.spec.name) as lab:
                yield partial(self._runs, lab, entry)
        finally:
            if not made.already_up:
                lifecycle.down(entry.spec.name)

    def _runs(self, lab: RunningLab, entry: Entry, wanted: Sequence[tuple[Variant, int]]) -> list[Observed]:
        found: list[Observed] = []
        for variant, seed in wanted:
            if self.interrupted:
                break
            with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX) as scratch:
                result = run_scenario(entry.scenarios[variant], lab, Path(scratch), seed=seed, report=False)
            observed = _observed(result)
            self.interrupted = observed.interrupted
            found.append(observed)
        return found


@contextmanager
def _stage(scenario: Scenario, virtual: bool, real_rates: bool) -> Iterator[_Stage]:
    if virtual:
        with Interruptible() as wish, ProcessPoolExecutor(os.cpu_count()) as pool:
            yield _InVirtualTime(pool, wish, real_rates)
    else:
        yield _OnTheKernel(library.find("topologies", scenario.lab))


def _simulated(real_rates: bool, scenario: Scenario, spec: LabSpec, seed: int) -> Observed:
    with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX) as scratch:
        return _observed(simulate(scenario, spec, Path(scratch), seed=seed, real_rates=real_rates, report=False))


def _observed(result: RunResult) -> Observed:
    return figures.observe(result.run, result.summary)


def _told(
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


def _column(one: Compared, rows: Sequence[figures.Row]) -> dict[str, Any]:
    low, middle, high = figures.middle_curve(one.runs)
    verdicts = [run.verdict for run in one.runs]
    return {
        "name": one.column.name,
        "words": one.column.words,
        "missing": one.missing,
        "lab": None if one.spec is None else json.loads(one.spec.model_dump_json()),
        "time_dilation": None if one.spec is None else one.spec.time_dilation,
        "best": None if one.best is None else one.best.name,
        "tried": [
            {"variant": variant.name, "qps": variant.qps, "dcqcn": variant.dcqcn, "score_bps": figures.score(runs)}
            for variant, runs in one.tried.items()
        ],
        "verdicts": {name: verdicts.count(name) for name in ("pass", "fail", "invalid")},
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
    if found is None:
        return None
    told = found.as_dict()
    finite = [value for value in found.values if not isinf(value)]
    told["mean"] = sum(finite) / len(finite) if finite else None
    told["never"] = found.count - len(finite)
    for name in ("min", "median", "p95", "max"):
        value = told[name]
        told[name] = None if isinstance(value, float) and isinf(value) else value
    interval = told["median_interval"]
    if isinstance(interval, list):
        told["median_interval"] = [None if isinf(value) else value for value in interval]  # type: ignore[misc]
    return told
