"""`mrclab campaign`: one scenario many times, for the distribution of what its faults cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.output import json_option, result, show, table
from testbed.cli.runs import lab_of

if TYPE_CHECKING:
    from testbed.chaos.campaign import CampaignResult, Progress


@contextmanager
def _bar(quiet: bool) -> Iterator[Progress]:
    """A progress bar with the time left, on a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TextColumn("time left"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("runs", total=None)
        yield lambda done, of: bars.update(task, completed=done, total=of)


@click.command("campaign")
@click.argument("scenario")
@click.option(
    "--runs", type=click.IntRange(1, 100_000), required=True, help="How many, with as many seeds from the first."
)
@click.option("--parallel", type=click.Choice(["sim"]), help="sim: in virtual time, on all cores; needs no root.")
@click.option("--real-rates", is_flag=True, help="With --parallel sim: at the rates that the lab stands for.")
@click.option(
    "--lab",
    "lab_name",
    metavar="LAB",
    help="Another lab than the scenario names: a lab file, or one that is up (not with sim).",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="For the results; default: runs/NAME-campaign.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override, like seed=100 for the first seed."
)
@json_option
def campaign_verb(
    scenario: str,
    runs: int,
    parallel: str | None,
    real_rates: bool,
    lab_name: str | None,
    out: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run SCENARIO many times, each time with another seed. Interrupted, the same command goes on with the rest."""
    from testbed.chaos import campaign, check
    from testbed.chaos.scenario import load_scenario
    from testbed.topology import clos
    from testbed.topology.labfile import load_lab

    if real_rates and parallel is None:
        raise click.UsageError("--real-rates needs --parallel sim")
    wanted = load_scenario(scenario, overrides)
    kind = "-campaign" if parallel is None else "-campaign-real" if real_rates else "-campaign-sim"
    folder = out or Path("runs") / f"{wanted.name}{kind}"
    settings = [*(["--lab", lab_name] if lab_name else []), *(part for one in overrides for part in ("--set", one))]
    with _bar(as_json) as progress:
        if parallel is None:
            with lab_of(wanted, lab_name, quiet=True) as running:
                repeat = ["mrclab", "run", scenario, *settings]
                outcome = campaign.on_lab(wanted, running, runs, folder, repeat, progress)
        else:
            spec = load_lab(lab_name or wanted.lab)
            check.check(wanted, clos.build(spec))
            repeat = ["mrclab", "sim", scenario, *settings, *(["--real-rates"] if real_rates else [])]
            outcome = campaign.in_virtual_time(wanted, spec, runs, folder, repeat, progress, real_rates=real_rates)
    result(as_json, outcome.told, lambda: _show(outcome))
    return outcome.exit_code


def _show(outcome: CampaignResult) -> None:
    from testbed.measure.campaign import FIGURES

    told = outcome.told
    rows = []
    for figure in FIGURES:
        found = told["figures"][figure.key]
        if found is not None:
            interval = found["median_interval"]
            between = "-" if interval is None else " to ".join(figure.show(value) for value in interval)
            values = [figure.show(found[name]) for name in ("median", "p95", "max")]
            rows.append([figure.words, found["count"], values[0], between, *values[1:]])
    table(["of each fault", "faults", "median", "95 % confidence", "p95", "max"], rows)
    show()
    table(["worst runs", "why", "again with"], [[one["seed"], one["why"], one["repeat"]] for one in told["worst"]])
    verdicts = told["verdicts"]
    show(
        f"{told['runs']} of {told['of']} runs: {verdicts['pass']} passed, {verdicts['fail']} failed, "
        f"{verdicts['invalid']} not valid; {told['bytes_wrong']} bytes wrong   {outcome.paths['page']}"
    )
    for seed, reasons in told["not_valid"].items():
        show(f"note: the run of seed {seed} was not valid: {'; '.join(reasons)}")
    if told["not_valid"]:
        show("the same command makes these again")
    if outcome.interrupted:
        show(f"{outcome.interrupted}; the same command goes on with the rest")
