"""`mrclab sim`: a scenario in virtual time, recorded and judged like a run. Needs no root and no lab."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.output import json_option, result, say
from testbed.cli.runs import seed_option, set_option, show_outcome


@click.command("sim")
@click.argument("scenario")
@click.option("--lab", "lab_name", metavar="LAB", help="Another lab file than the scenario names.")
@seed_option
@click.option("--real-rates", is_flag=True, help="At the rates that the lab stands for; its times get as much shorter.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for the results; default: runs/NAME-sim."
)
@set_option
@json_option
def sim_verb(
    scenario: str,
    lab_name: str | None,
    seed: int | None,
    real_rates: bool,
    out: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run SCENARIO in virtual time, without root. The same agents, ports, faults and verdict; same seed, same run."""
    from testbed.chaos import check
    from testbed.chaos.scenario import load_scenario
    from testbed.chaos.virtual import simulate
    from testbed.topology import clos
    from testbed.topology.labfile import load_lab
    from testbed.topology.units import format_duration, format_rate

    wanted = load_scenario(scenario, overrides if seed is None else (*overrides, f"seed={seed}"))
    spec = load_lab(lab_name or wanted.lab)
    check.check(wanted, clos.build(spec))
    rate_bps = spec.stands_for.host if real_rates else spec.rates.host
    length_ns = wanted.duration / spec.time_dilation if real_rates else wanted.duration
    say(f"simulating {format_duration(length_ns)} of {wanted.name} at {format_rate(rate_bps)}")
    outcome = simulate(wanted, spec, out or Path("runs") / f"{wanted.name}-sim", real_rates=real_rates)
    result(as_json, outcome.summary, lambda: show_outcome(outcome))
    return outcome.exit_code
