"""`mrclab validate` and `schema`: is a lab file or scenario file right, and what may be in one? Needs no root."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.output import json_option, result, show

_SCENARIO_KEYS = {"workloads", "faults", "expect", "duration"}  # a lab file has none of these


@click.command("validate")
@click.argument("file")
@json_option
def validate_verb(file: str, as_json: bool) -> None:
    """Check a lab file or a scenario. Every error is a line with file and line number."""
    kind, name, parts = _scenario(file) if _is_scenario(file) else _lab(file)
    result(as_json, {"kind": kind, "name": name, "ok": True}, lambda: show(f"{kind} {name} is right: {parts}"))


def _is_scenario(file: str) -> bool:
    from testbed.topology import library, yamlfile

    if library.is_there(Path(file), file=True):
        return bool(_SCENARIO_KEYS & yamlfile.top_level_keys(file))
    return file in library.names("scenarios") and file not in library.names("topologies")


def _scenario(file: str) -> tuple[str, str, str]:
    from testbed.chaos import check
    from testbed.chaos.scenario import load_scenario
    from testbed.topology import clos
    from testbed.topology.labfile import load_lab

    scenario = load_scenario(file)
    check.check(scenario, clos.build(load_lab(scenario.lab)))
    parts = f"{len(scenario.workloads)} workloads and {len(scenario.faults)} faults on lab {scenario.lab}"
    return "scenario", scenario.name, parts


def _lab(file: str) -> tuple[str, str, str]:
    from testbed.topology import clos
    from testbed.topology.labfile import load_lab

    spec = load_lab(file)
    fabric = clos.build(spec)
    return "lab", spec.name, f"{len(fabric.hosts)} hosts, {len(fabric.switches)} switches, {len(fabric.links)} links"


@click.command("schema")
@click.argument("what", type=click.Choice(["lab", "scenario"]), default="lab")
def schema_verb(what: str) -> None:
    """The JSON schema of lab files, or of scenario files. It is for editors: each key with its meaning."""
    import json

    from testbed.chaos import scenario
    from testbed.topology import labfile

    show(json.dumps(labfile.schema() if what == "lab" else scenario.schema(), indent=2))
