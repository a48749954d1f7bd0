"""`mrclab web` and `mrclab watch`: see a lab live, in a browser or in a terminal."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.needs import needs
from testbed.cli.output import say, show


@click.command("web")
@click.argument("name", metavar="[NAME | RUN_DIR]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Another address of this machine to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Default: 8420, or a free one if that is taken.")
@click.option(
    "--name",
    "also",
    metavar="HOST:PORT",
    multiple=True,
    help="What browsers call it elsewhere, like localhost:8420 where a VM's port is forwarded. May be repeated.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    help="Where runs go; default: runs.",
)
def web_verb(name: str | None, host: str, port: int | None, also: tuple[str, ...], out: Path) -> None:
    """Serve the live page of a lab, or the replay of a run's folder. Without NAME: the lab that is up.

    Whoever has the printed address may change the lab; without the token in it the page can only be looked at.
    """
    from testbed import doctor

    is_replay = name is not None and Path(name).is_dir()
    doctor.require("replay" if is_replay else "web")
    from testbed.web import serve

    listening = serve.listen(host, serve.DEFAULT_PORT if port is None else port, or_any=port is None)
    site = serve.Site(listening, also=tuple(map(serve.browser_name, also)))
    show(site.address)
    if is_replay:
        serve.replay(site, Path(str(name)))
    else:
        say("Ctrl-C ends the page; the lab stays up")
        serve.live(site, name, out)


@click.command("watch")
@click.argument("name", required=False)
@click.option("--for", "seconds", type=click.FloatRange(min=0), help="End after so many seconds.")
@needs("watch")
def watch_verb(name: str | None, seconds: float | None) -> None:
    """A lab live in the terminal: goodput, EVs, faults, events. Without NAME: the lab that is up. Ctrl-C ends it."""
    from testbed.web import terminal

    terminal.watch(name, seconds)
