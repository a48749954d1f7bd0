"""`mrclab cli` and `mrclab exec`: into the nodes of a running lab."""

from __future__ import annotations

import sys

import click

from testbed.cli.faults import lab_option
from testbed.cli.needs import needs


@click.command("cli")
@click.argument("name", required=False)
@needs("cli")
def cli_verb(name: str | None) -> None:
    """Mininet's prompt over a lab: `h0 ping h5`, `links`, `pingall`. Without NAME: the lab that is up."""
    from testbed.lab import mininet_view
    from testbed.lab.running import the_lab

    with the_lab(name) as lab:
        mininet_view.prompt(lab, stdin=sys.stdin)


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("node")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@lab_option
@needs("exec")
def exec_verb(node: str, command: tuple[str, ...], lab_name: str | None) -> int:
    """Run COMMAND in NODE, and leave with its exit code. Like `mrclab exec h0 -- ping -c 1 h5`.

    A word that is a host's name becomes that host's address.
    """
    from testbed.lab.running import exec_in, the_lab

    if command[:1] == ("--",):
        command = command[1:]
    if not command:
        raise click.UsageError("there is no command to run; write it behind --")
    with the_lab(lab_name) as lab:
        return exec_in(lab, node, command)
