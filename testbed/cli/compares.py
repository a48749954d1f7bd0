"""`mrclab compare`: the same traffic and faults over MRC and its baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.output import json_option, result, say, show, table
from testbed.cli.runs import set_option

if TYPE_CHECKING:
    from testbed.compare.engine import Comparison


@click.command("compare")
@click.argument("scenario")
@click.option("--sim", "virtual", is_flag=True, help="In virtual time, on all cores; needs no root.")
@click.option("--real-rates", is_flag=True, help="With --sim: at the rates that the lab stands for.")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=1, help="How many, from the scenario's on.")
@click.option(
    "--columns", "wanted", metavar="NAME,..", help="mrc, mrc-ecmp, roce, roce-bgp, roce-nobfd; the last is extra."
)
@click.option("--qps", metavar="N,..", default="1,8,16", help="Queue pairs a pair that RoCE is tried with.")
@click.option("--dcqcn", "profiles", metavar="NAME,..", help="Settings of RoCE's rate control to try; default: all.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="For the results; default: runs/NAME-compare."
)
@set_option
@json_option
def compare_verb(
    scenario: str,
    virtual: bool,
    real_rates: bool,
    seeds: int,
    wanted: str | None,
    qps: str,
    profiles: str | None,
    out: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run SCENARIO over MRC and over its baselines. Equal bandwidth, one table, curves side by side, what is unlike."""
    from testbed import doctor
    from testbed.chaos.campaign import seeds_of
    from testbed.chaos.scenario import load_scenario
    from testbed.compare import columns
    from testbed.compare.engine import compare
    from testbed.topology.labfile import load_lab

    if real_rates and not virtual:
        raise click.UsageError("--real-rates needs --sim")
    loaded = load_scenario(scenario, overrides)
    if not virtual:
        doctor.require("up")
    comparison = compare(
        loaded,
        load_lab(loaded.lab),
        out or Path("runs") / f"{loaded.name}-compare{'-real' if real_rates else '-sim' if virtual else ''}",
        say,
        wanted=columns.find(_names(wanted) if wanted else columns.BY_DEFAULT),
        seeds=seeds_of(loaded, seeds),
        qps=_numbers(qps),
        profiles=_names(profiles) if profiles else columns.DCQCN_PROFILES,
        virtual=virtual,
        real_rates=real_rates,
    )
    result(as_json, comparison.told, lambda: _show(comparison))
    return comparison.exit_code


def _names(text: str) -> list[str]:
    """Each once, in their order."""
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def _numbers(text: str) -> list[int]:
    from testbed.chaos.workload import MAX_QPS
    from testbed.topology.errors import InputError

    numbers = [int(name) if name.isdecimal() else 0 for name in _names(text)]
    if not all(1 <= number <= MAX_QPS for number in numbers):
        raise InputError(f"--qps {text}: not numbers of queue pairs", f"write 1 to {MAX_QPS}, like 1,8,16")
    return list(dict.fromkeys(numbers))


def _show(comparison: Comparison) -> None:
    from testbed.compare.page import cell
    from testbed.measure.figure import Figure

    told = comparison.told
    there = [column for column in told["columns"] if not column["missing"]]
    rows = [["setting", *(column["best"] for column in there)]]
    for row in told["rows"]:
        cells = [cell(column, Figure(**row)) for column in there]
        rows.append([row["words"], *(f"{one['median']}  {one['between']}".strip() for one in cells)])
    table(["", *(column["name"] for column in there)], rows)
    show()
    for one in told["unlike"]:
        show(f"unlike: {one}")
    for column in told["columns"]:
        if column["missing"]:
            show(f"{column['name']} is not here: {column['missing']}")
        if column["warnings"]:
            show(f"note: {column['name']}: {'; '.join(column['warnings'][:2])}")
        if column["verdicts"]["invalid"]:
            why = "; ".join(column["reasons"][:2])
            show(f"note: {column['verdicts']['invalid']} runs of {column['name']} were not valid: {why}")
    if told["interrupted"]:
        show(f"note: {told['interrupted']}; the same command goes on with the rest")
    show(f"{comparison.paths['page']}")
