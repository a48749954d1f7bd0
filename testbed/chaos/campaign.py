"""Many runs of one scenario, each with a seed of its own: on a lab that is up, or in virtual time on all cores.

A run leaves its summary, `seed-N.json`; the rest of its files can be had again by its seed. A campaign that was
interrupted goes on where it was (`kept`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from testbed.chaos.interrupt import Interruptible
from testbed.chaos.kept import Kept
from testbed.chaos.runner import run_scenario
from testbed.chaos.scenario import MAX_SEED, Scenario
from testbed.chaos.virtual import simulate
from testbed.chaos.workers import Workers
from testbed.lab.running import RunningLab
from testbed.measure.campaign import Campaign, Summary
from testbed.report import campaign as page
from testbed.topology.errors import InputError
from testbed.topology.labspec import LabSpec

JSON_FILE, PAGE_FILE = "campaign.json", "campaign.html"

Progress = Callable[[int, int], None]  # (runs done, of how many)


@dataclass(frozen=True)
class CampaignResult:
    """How a campaign ended; `interrupted` names the signal that ended it before all runs were made."""

    told: dict[str, Any]
    paths: dict[str, Path]
    interrupted: str

    @property
    def exit_code(self) -> int:
        """0 all passed, 1 some failed, 4 none failed and some were not valid, or it was interrupted."""
        verdicts = self.told["verdicts"]
        return 1 if verdicts["fail"] else 4 if verdicts["invalid"] or self.interrupted else 0


def on_lab(
    scenario: Scenario, lab: RunningLab, runs: int, out_dir: Path, repeat: list[str], progress: Progress
) -> CampaignResult:
    """Run after run on a lab. `repeat`: the command of which `--seed N` makes a run again. Errors as `run_scenario`."""
    seeds = seeds_of(scenario, runs)
    kept = Kept.open(out_dir, "campaign", scenario, lab.spec, "on the lab")

    def made(wish: Interruptible) -> Iterator[tuple[int, Summary]]:
        for seed in _missing(kept, seeds):
            if wish.signal_name:  # between two runs; a run looks for its own
                return
            with _scratch(out_dir, seed) as scratch:
                outcome = run_scenario(scenario, lab, scratch, seed=seed, report=False)
            yield seed, outcome.summary

    with Interruptible() as wish:
        interrupted = _gather(kept, seeds, progress, made(wish)) or wish.words
    return _tell(scenario, kept, seeds, out_dir, "on the lab", repeat, interrupted)


def in_virtual_time(
    scenario: Scenario,
    spec: LabSpec,
    runs: int,
    out_dir: Path,
    repeat: list[str],
    progress: Progress,
    *,
    real_rates: bool = False,
) -> CampaignResult:
    """As many runs at a time as there are cores."""
    where = "in virtual time, at real rates" if real_rates else "in virtual time"
    seeds = seeds_of(scenario, runs)
    kept = Kept.open(out_dir, "campaign", scenario, spec, where)
    scenario._document = None  # lines of a file that was read: not needed by the workers, who could not take it
    with Workers() as workers:
        made = workers.each(partial(_simulated, scenario, spec, real_rates, out_dir), _missing(kept, seeds))
        interrupted = _gather(kept, seeds, progress, made) or workers.interrupted
    return _tell(scenario, kept, seeds, out_dir, where, repeat, interrupted)


def _simulated(scenario: Scenario, spec: LabSpec, real_rates: bool, out_dir: Path, seed: int) -> Summary:
    with _scratch(out_dir, seed) as scratch:
        return simulate(scenario, spec, scratch, seed=seed, real_rates=real_rates, report=False).summary


@contextmanager
def _scratch(out_dir: Path, seed: int) -> Iterator[Path]:
    """For a run's other files. What a campaign that was killed left there goes when the run is made again."""
    path = out_dir / f".{_name(seed)}"
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def seeds_of(scenario: Scenario, runs: int) -> list[int]:
    """So many, from the scenario's on. Raises InputError where that is beyond the last there is."""
    last = scenario.seed + runs - 1
    if last > MAX_SEED:
        raise InputError(f"{runs} seeds from {scenario.seed} on end at {last}, beyond {MAX_SEED}", "lower seed")
    return list(range(scenario.seed, last + 1))


def _name(seed: int) -> str:
    return f"seed-{seed}"


def _missing(kept: Kept, seeds: list[int]) -> list[int]:
    return [seed for seed in seeds if kept.lacks(_name(seed))]


def _gather(kept: Kept, seeds: list[int], progress: Progress, made: Iterator[tuple[int, Summary]]) -> str:
    """Keep what comes, until all is there or a run was cut short: then by what."""
    done = len(seeds) - len(_missing(kept, seeds))
    progress(done, len(seeds))
    for seed, summary in made:
        if summary["interrupted"]:
            return str(summary["interrupted"])
        kept.save(_name(seed), summary)
        done += 1
        progress(done, len(seeds))
    return ""


def _tell(
    scenario: Scenario, kept: Kept, seeds: list[int], out_dir: Path, where: str, repeat: list[str], interrupted: str
) -> CampaignResult:
    """What it came to, also of half a campaign."""
    campaign = Campaign({seed: found for seed in seeds if (found := kept.load(_name(seed))) is not None})
    told = {"scenario": scenario.name, "where": where, "of": len(seeds), "interrupted": interrupted}
    told |= campaign.as_dict(repeat)
    paths = {"json": out_dir / JSON_FILE, "page": out_dir / PAGE_FILE}
    paths["json"].write_text(json.dumps(told, indent=1) + "\n")
    paths["page"].write_text(page.render(campaign, told))
    return CampaignResult(told, paths, interrupted)
