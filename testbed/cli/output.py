"""How verbs speak: results on stdout, words about the work on stderr, JSON when asked for.

`--json` prints one object with `schema_version` on stdout and nothing else there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

SCHEMA_VERSION = 1

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


def say(text: str) -> None:
    """A line on stderr: what is being done, or what went wrong."""
    click.echo(f"mrclab: {text}", err=True)


def show(text: str = "") -> None:
    """A line of the result, on stdout."""
    click.echo(text)


def result(as_json: bool, data: Mapping[str, Any], render: Callable[[], None]) -> None:
    """Print a verb's result: the JSON object, or what `render` shows a person.

    Who reads it may have seen enough and gone (`| head -1`): the verb's exit code is its own all the same.
    """
    try:
        if as_json:
            json.dump({"schema_version": SCHEMA_VERSION, **data}, sys.stdout, indent=2, default=str)
            sys.stdout.write("\n")
        else:
            render()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def table(columns: list[str], rows: list[list[Any]], title: str | None = None) -> None:
    """A table on stdout, plain when stdout is not a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # for `result`; rich would exit with 1

    view = Table(*columns, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title, title_justify="left")
    for row in rows:
        view.add_row(*(Text(str(cell)) for cell in row))
    width = None if sys.stdout.isatty() else 160
    Plain(width=width).print(view)
