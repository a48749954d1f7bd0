"""`mrclab capture` and `mrclab repair`: look at what a link carries; make a lab again what it was planned to be."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from typing import BinaryIO

import click

from testbed.cli.faults import lab_option
from testbed.cli.needs import needs
from testbed.cli.output import json_option, result, say, show
from testbed.cli.quantity import DURATION


@click.command("capture")
@click.argument("link")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="A pcapng file, or - for stdout; default: LINK.pcapng."
)
@click.option("--decode", is_flag=True, help="Show the frames instead, decoded by tshark with MRC's dissector.")
@click.option("--for", "for_ns", type=DURATION, metavar="DURATION", help="So long; default: until interrupted.")
@click.option("--count", type=click.IntRange(min=1), help="So many frames.")
@lab_option
@needs("capture")
def capture_verb(
    link: str, output: str | None, decode: bool, for_ns: int | None, count: int | None, lab_name: str | None
) -> None:
    """Write the frames of LINK, both directions, to a pcapng file."""
    from testbed.lab.capture import capture, decoding
    from testbed.lab.running import the_lab
    from testbed.topology.select import find_link

    if decode and output is not None:
        raise click.UsageError("--decode shows frames, -o keeps them; choose one")
    interrupted: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: interrupted.append(number))
    with the_lab(lab_name) as lab, contextlib.ExitStack() as opened:
        found = find_link(lab.clos, link)
        path = output or f"{found.name.replace(':', '_')}.pcapng"
        if decode:
            file, path = opened.enter_context(decoding()), "tshark's hands"
        else:
            file = sys.stdout.buffer if path == "-" else opened.enter_context(_open(path))
        frames, dropped = capture(lab, found, file, for_ns=for_ns, count=count, ended=lambda: bool(interrupted))
    say(f"{frames} frames of {found.name} in {path}" + (f", {dropped} more were dropped" if dropped else ""))


def _open(path: str) -> BinaryIO:
    from testbed.topology.errors import InputError

    try:
        return Path(path).open("wb")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", "name another file with -o") from None


@click.command("repair")
@click.argument("name", required=False)
@json_option
@needs("repair")
def repair_verb(name: str | None, as_json: bool) -> int:
    """Clear a lab's faults, put back what it lacks, start dead agents."""
    from testbed.chaos import by_hand
    from testbed.lab.repair import repair
    from testbed.lab.running import the_lab

    with the_lab(name) as lab:
        cleared = [f"{fault.kind} {fault.target}" for fault in by_hand.clear(lab)]
    done = repair(lab.name)

    def render() -> None:
        for what, items in (
            ("fault cleared", cleared),
            ("put back", done.mended),
            ("agent started", done.agents_started),
            ("routing daemon started", done.routers_started),
            ("still differs", done.left),
        ):
            for item in items:
                show(f"{what}: {item}")
        if not (cleared or done.mended or done.agents_started or done.routers_started or done.left):
            show(f"lab {lab.name} is as planned; there was nothing to do")

    result(as_json, {**done.as_dict(), "faults_cleared": cleared}, render)
    return 4 if done.left else 0
