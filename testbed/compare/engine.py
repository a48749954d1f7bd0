"""Runs a comparison: every variant of every column once, then the best of each with all seeds.

Each run's result is kept in the folder of the comparison, and is not made again (`testbed.chaos.kept`). A column that
cannot be had (a fault that needs a path's name where switches hash, a program that is not there) is said to be missing,
with the reason, and the others go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.chaos import check
from testbed.chaos.kept import Kept
from testbed.chaos.scenario import Scenario
from testbed.compare import columns, figures, page, unlike
from testbed.compare.columns import Column, Entry, Variant
from testbed.compare.figures import Observed
from testbed.compare.stages import One, Runs, Stage, stage
from testbed.compare.told import Compared, told_of
from testbed.lab.lifecycle import refuse_what_only_sim_has
from testbed.topology import clos
from testbed.topology.errors import InputError, MissingError, MrclabError
from testbed.topology.labspec import LabSpec

JSON_FILE, PAGE_FILE = "compare.json", "compare.html"

Tell = Callable[[str], None]


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
    check.check(scenario, clos.build(spec), compared=True)  # with the lines of what is wrong
    if not virtual:
        refuse_what_only_sim_has(spec)
    where = "on the kernel lab" if not virtual else "in virtual time" + (", at real rates" if real_rates else "")
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
    kept = Kept.open(out_dir, "comparison", scenario, spec, where)
    with stage(scenario, virtual, real_rates) as where_it_runs:
        for one, entry in entries:
            if not where_it_runs.interrupted:
                _run_column(one, entry, seeds, where_it_runs, kept, tell)
    errors = [one.error for one, _ in entries if isinstance(one.error, InputError)]
    if len(errors) == len(entries):
        raise InputError.several(errors)
    told = told_of(scenario, compared, unlike.said([entry for _, entry in entries]), seeds, where)
    told["interrupted"] = where_it_runs.interrupted
    paths = {"json": out_dir / JSON_FILE, "page": out_dir / PAGE_FILE}
    paths["json"].write_text(json.dumps(told, indent=1) + "\n")
    paths["page"].write_text(page.render(told))
    return Comparison(told, compared, paths)


def _run_column(one: Compared, entry: Entry, seeds: Sequence[int], stage: Stage, kept: Kept, tell: Tell) -> None:
    tried = entry.tried
    one.best = tried[0]
    runs = _Runs(one.column, entry, stage, kept, tell)
    try:
        with runs:
            if len(tried) > 1:
                _try(one, runs, tried, seeds[0])
            if one.best in entry.sooner:
                _try(one, runs, [one.best, entry.sooner[one.best]], seeds[0])
            many = f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
            runs.make([(one.best, seed) for seed in seeds], f"{one.best.name}, {many}")
    except MrclabError as error:
        one.missing = f"{error}"
        one.error = error
    one.runs = list(runs.there((one.best, seed) for seed in seeds).values())


def _try(one: Compared, runs: _Runs, variants: Sequence[Variant], seed: int) -> None:
    """Choose the best of these with one seed."""
    trials = [(variant, seed) for variant in variants]
    runs.make(trials, f"{len(variants)} settings with seed {seed}")
    one.tried |= {variant: [observed] for (variant, _), observed in runs.there(trials).items()}
    one.best = max(one.tried, key=lambda variant: figures.worth(one.tried[variant]), default=variants[0])


class _Runs:
    """The runs of a column: those that are kept, and those that are made, on a lab that is there from the first on."""

    def __init__(self, column: Column, entry: Entry, stage: Stage, kept: Kept, tell: Tell) -> None:
        self._column, self._entry, self._stage, self._kept, self._tell = column, entry, stage, kept, tell
        self._lab = ExitStack()
        self._run: Runs | None = None

    def __enter__(self) -> _Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self._lab.close()

    def make(self, wanted: Sequence[One], words: str) -> None:
        """Those that are missing, until somebody wishes the end; `words` say what they are."""
        if self._stage.interrupted:
            return
        missing = [one for one in wanted if self._kept.lacks(self._name(one))]
        there = len(wanted) - len(missing)
        self._tell(f"{self._column.name}: {words}" + (f"; {there} of these runs are there already" if there else ""))
        if missing and self._run is None:
            self._run = self._lab.enter_context(self._stage.lab_of(self._entry))
        for one, observed in self._run(missing) if missing and self._run else ():
            if not observed.interrupted:
                self._kept.save(self._name(one), asdict(observed))

    def there(self, wanted: Iterable[One]) -> dict[One, Observed]:
        """What was kept of these, in their order."""
        found = {one: self._kept.load(self._name(one)) for one in wanted}
        return {one: Observed(**result) for one, result in found.items() if result is not None}

    def _name(self, one: One) -> str:
        variant, seed = one
        return variant.file_name(self._column, seed)
