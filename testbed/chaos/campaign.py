"""Many runs of one scenario, each with a seed of its own: on a lab that is up, or in virtual time on all cores.

A run leaves its summary, `seed-N.json`; the rest of its files can be had again by its seed. A campaign that was
interrupted goes on where it was: the folder says what it is of, and a summary that is there is not made again, unless
its run was not valid.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from testbed.chaos.interrupt import Interruptible
from testbed.chaos.runner import run_scenario
from testbed.chaos.scenario import Scenario
from testbed.chaos.virtual import simulate
from testbed.lab.running import RunningLab
from testbed.measure.campaign import Campaign, Summary
from testbed.report import campaign as page
from testbed.topology.errors import InputError
from testbed.topology.labspec import LabSpec

JSON_FILE, PAGE_FILE = "campaign.json", "campaign.html"
_IDENTITY_FILE = "of.json"
_LOOK_EVERY_S = 0.3
_SCRATCH_PREFIX = "mrclab-campaign-"

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
    seeds = _begin(scenario, lab.spec, runs, out_dir, "on the lab")

    def made() -> Iterator[tuple[int, Summary]]:
        for seed in _missing(out_dir, seeds):
            with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX) as scratch:
                outcome = run_scenario(scenario, lab, Path(scratch), seed=seed, report=False)
            yield seed, outcome.summary

    return _gather(scenario, seeds, out_dir, "on the lab", repeat, progress, made(), "")


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
    seeds = _begin(scenario, spec, runs, out_dir, where)
    scenario._document = None  # lines of a file that was read: not needed by the workers, who could not take it
    one = partial(_simulated, scenario, spec, real_rates)
    with Interruptible() as wish, ProcessPoolExecutor(os.cpu_count()) as pool:

        def made() -> Iterator[tuple[int, Summary]]:
            waiting = {pool.submit(one, seed): seed for seed in _missing(out_dir, seeds)}
            pending = set(waiting)
            while pending:
                done, pending = wait(pending, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                if wish.signal_name:
                    pool.shutdown(wait=False, cancel_futures=True)
                    for worker in active_children():
                        worker.terminate()  # ends its run early, as a signal from the terminal has done already
                    return
                for future in done:
                    yield waiting[future], future.result()

        return _gather(scenario, seeds, out_dir, where, repeat, progress, made(), wish)


def _simulated(scenario: Scenario, spec: LabSpec, real_rates: bool, seed: int) -> Summary:
    with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX) as scratch:
        return simulate(scenario, spec, Path(scratch), seed=seed, real_rates=real_rates, report=False).summary


def _begin(scenario: Scenario, spec: LabSpec, runs: int, out_dir: Path, where: str) -> list[int]:
    """Make the folder, or see that it is of this campaign; the seeds. Raises InputError when it is of another."""
    text = "".join([
        scenario.model_dump_json(exclude={"seed"}, exclude_none=True),
        spec.model_dump_json(exclude_none=True),
        where,
    ])  # fmt: skip
    identity = {"scenario": scenario.name, "where": where, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    out_dir.mkdir(parents=True, exist_ok=True)
    path = out_dir / _IDENTITY_FILE
    if path.exists() and json.loads(path.read_text()) != identity:
        raise InputError(f"{out_dir} holds another campaign", "name another folder with --out, or remove that one")
    path.write_text(json.dumps(identity) + "\n")
    return list(range(scenario.seed, scenario.seed + runs))


def _path(out_dir: Path, seed: int) -> Path:
    return out_dir / f"seed-{seed}.json"


def _missing(out_dir: Path, seeds: list[int]) -> list[int]:
    return [seed for seed in seeds if not _is_valid(_path(out_dir, seed))]


def _is_valid(path: Path) -> bool:
    return path.exists() and json.loads(path.read_text())["verdict"] != "invalid"


def _gather(
    scenario: Scenario,
    seeds: list[int],
    out_dir: Path,
    where: str,
    repeat: list[str],
    progress: Progress,
    made: Iterator[tuple[int, Summary]],
    wish: Interruptible | str,
) -> CampaignResult:
    """Keep what comes, until all is there or a run was cut short; then say what it is, also of half a campaign."""
    done = len(seeds) - len(_missing(out_dir, seeds))
    progress(done, len(seeds))
    interrupted = ""
    for seed, summary in made:
        if summary["interrupted"]:
            interrupted = summary["interrupted"]
            break
        partial_path = _path(out_dir, seed).with_suffix(".new")
        partial_path.write_text(json.dumps(summary) + "\n")
        partial_path.replace(_path(out_dir, seed))
        done += 1
        progress(done, len(seeds))
    if isinstance(wish, Interruptible) and wish.signal_name:
        interrupted = f"ended early by {wish.signal_name}"
    there = [seed for seed in seeds if _path(out_dir, seed).exists()]
    campaign = Campaign({seed: json.loads(_path(out_dir, seed).read_text()) for seed in there})
    told = {"scenario": scenario.name, "where": where, "of": len(seeds), "interrupted": interrupted}
    told |= campaign.as_dict(repeat)
    paths = {"json": out_dir / JSON_FILE, "page": out_dir / PAGE_FILE}
    paths["json"].write_text(json.dumps(told, indent=1) + "\n")
    paths["page"].write_text(page.render(campaign, told))
    return CampaignResult(told, paths, interrupted)
