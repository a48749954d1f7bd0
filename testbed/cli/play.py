"""`mrclab play`: playbooks on this machine, the Vagrant machine, or a list of machines."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from testbed.cli.output import json_option, result, say, show, table

if TYPE_CHECKING:
    from testbed.play import Tell
    from testbed.play.story import Done, Story

_COLUMNS = ("ok", "changed", "skipped", "failed", "unreachable")


@contextmanager
def _progress(quiet: bool) -> Iterator[Tell]:
    """A line for each task that is done, on stderr; on a terminal also the one that runs."""
    if quiet:
        yield lambda story, done: None
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    colours = {"ok": "green", "changed": "yellow", "failed": "red", "unreachable": "red"}
    with console.status("starting Ansible") if sys.stderr.isatty() else _nothing() as status:

        def tell(story: Story, done: Done | None) -> None:
            if done is None:
                if status is not None:
                    status.update(Text(story.task))
            elif done.state != "skipped":
                state = (f"{done.state:>11}", colours.get(done.state, ""))
                line = Text.assemble(state, f"  {done.host}  {_what(done)}  ", (f"{done.seconds:.1f} s", "dim"))
                console.print(line, soft_wrap=True)
                if done.message:
                    console.print(Text(f"{'':13}{done.message}"), soft_wrap=True)

        yield tell


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def _what(done: Done) -> str:
    return f"{done.role}: {done.task}" if done.role else done.task


@click.command("play")
@click.argument("name", metavar="PLAYBOOK")
@click.option(
    "-i",
    "--inventory",
    default="local",
    show_default=True,
    help="Which machines: local, vagrant, a file of Ansible's, or hosts like 'one,two,'.",
)
@click.option("-e", "--set", "words", multiple=True, metavar="KEY=VALUE", help="A setting of the playbook.")
@click.option("--limit", metavar="HOSTS", help="Only these machines of the inventory.")
@click.option("--check", is_flag=True, help="Say what would change, and change nothing.")
@json_option
def play_verb(name: str, inventory: str, words: tuple[str, ...], limit: str | None, check: bool, as_json: bool) -> int:
    """Run an Ansible playbook. It is provision, lab-up, lab-down, chaos, collect, or a file of your own.

    docs/vm.md lists the settings of each. Exits 3 when a machine cannot be reached, and with the exit code of the
    mrclab verb that failed on a machine.
    """
    from testbed import play
    from testbed.play import books

    book = books.find_book(name)
    given = books.settings(book, words)
    machines = books.find_inventory(inventory)
    play.require()
    play.require_ssh(inventory)
    if not as_json:
        say(f"playing {book.name} on {inventory}")
    arguments = [*(["--check"] if check else []), *(["--limit", limit] if limit else [])]
    with _progress(as_json) as tell:
        played = play.play(book, machines, given, books.owner(book, given), tell, shlex.join(arguments))
    story = played.story

    def render() -> None:
        rows = [[host, *(counts.get(state, 0) for state in _COLUMNS)] for host, counts in story.hosts.items()]
        table(["machine", *_COLUMNS], rows)
        show(f"{'failed' if played.exit_code else 'done'} in {played.seconds:.1f} s   artifacts: {played.artifacts}")

    told = {
        "playbook": book.name,
        "inventory": inventory,
        "check": check,
        "exit_code": played.exit_code,
        "seconds": played.seconds,
        "hosts": {host: {state: counts.get(state, 0) for state in _COLUMNS} for host, counts in story.hosts.items()},
        "tasks": [one.as_dict() for one in story.done],
        "artifacts": str(played.artifacts),
    }
    result(as_json, told, render)
    return played.exit_code
