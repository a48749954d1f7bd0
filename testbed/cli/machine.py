"""`mrclab doctor` and `mrclab test`: what this machine has, and whether everything works on it."""

from __future__ import annotations

import os
import sys

import click

from testbed.cli.output import json_option, result, say, show, table


@click.command("doctor")
@click.argument("verb", required=False)
@click.option("--fix", is_flag=True, help="Run the commands that mend what is missing or degraded, after asking.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@json_option
def doctor_verb(verb: str | None, fix: bool, yes: bool, as_json: bool) -> int:
    """What this machine has and lacks, for all verbs or for VERB. Each lack comes with what mends it."""
    from testbed import doctor
    from testbed.doctor import mend
    from testbed.topology.errors import InputError, nearest

    if verb is not None and verb not in doctor.NEEDS:
        raise InputError(f"no verb {verb!r} that needs anything", nearest(verb, doctor.NEEDS))
    rows = doctor.checks(verb)
    if fix and mend.run(mend.commands(rows), lambda command: yes or click.confirm(f"{command}?", err=True), say):
        rows = doctor.checks(verb)
    missing = [row for row in rows if row.state == "missing"]

    def render() -> None:
        table(
            ["need", "state", "found", "what for", "mend it with"],
            [[row.name, row.state, row.found, row.purpose, row.fix if row.state != "OK" else ""] for row in rows],
        )
        for row in missing:
            show(f"missing: {row.name}, needed by {', '.join(row.verbs)}; {row.fix}")
        if not missing:
            show("this machine can run a lab" if verb is None else f"this machine has all that {verb} needs")

    result(as_json, {"ok": not missing, "checks": [row.as_dict() for row in rows]}, render)
    return 3 if missing else 0


@click.command("test", context_settings={"ignore_unknown_options": True})
@click.option("--full", is_flag=True, help="Run the long storms and campaigns too.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of every random choice.")
@click.argument("pytest_arguments", nargs=-1)
def test_verb(full: bool, seed: int, pytest_arguments: tuple[str, ...]) -> None:
    """Run the test suite: a seeded sample of a few minutes. Further arguments go to pytest."""
    from testbed.topology.library import checkout

    root = checkout()
    if root is None:
        say("the tests come with the checkout, not with the installed package; run ./mrclab test there")
        sys.exit(3)
    os.chdir(root)
    command = [sys.executable, "-m", "pytest", f"--seed={seed}", f"--hypothesis-seed={seed}"]
    os.execv(sys.executable, [*command, *(["--full"] if full else []), *pytest_arguments])
