"""`mrclab demo`: the guided demonstration for an audience, from nothing to the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from testbed.cli.output import show


@contextmanager
def _page(lab: str, runs: Path) -> Iterator[None]:
    """The live page while this lasts, where one can be served."""
    from testbed import web

    if not web.available():
        yield
        return
    from testbed.web import serve

    with serve.beside(lab, runs) as page:
        show(f"   see it live in a browser: {page.address}")
        yield


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave the lab up afterwards, to look around with mrclab cli.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default="runs/demo", help="Folder for the results."
)
def demo_verb(keep: bool, out: Path) -> int:
    """The guided demonstration, from nothing to the verdict. Builds the lab `demo`, sends over it, cuts links."""
    from testbed import demo
    from testbed.chaos.runner import run_scenario
    from testbed.chaos.scenario import load_scenario
    from testbed.cli.labs import bring_up, up_line
    from testbed.cli.runs import show_outcome
    from testbed.lab import lifecycle
    from testbed.lab.running import open_lab

    scenario = load_scenario("demo")
    show("1. The fabric")
    made = bring_up(scenario.lab)
    try:
        with open_lab(made.lab) as lab:
            demo.introduce(lab.clos, lambda text: show(f"   {text}"))
            show(f"   {up_line(made)}")
            with _page(made.lab, out.parent):
                show("2. Traffic: every host writes to a partner in the other rack, sprayed packet by packet")
                outcome = run_scenario(scenario, lab, out, live=demo.Narrator(show).live)
        show("3. The verdict")
        show_outcome(outcome)
    finally:
        if not (keep or made.already_up):
            gone = lifecycle.down(made.lab)
            show(f"   the lab is gone again, {gone.namespaces} namespaces, in {gone.seconds:.2f} s")
    if keep:
        show(f"   the lab is still up: try mrclab cli, or mrclab fault; end it with mrclab down {made.lab}")
    return outcome.exit_code
