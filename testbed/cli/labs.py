"""`mrclab up`, `down`, `status`, `list`: the life of a lab."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from testbed.cli.needs import needs
from testbed.cli.output import json_option, result, say, show, table
from testbed.cli.quantity import DURATION
from testbed.topology.units import format_rate

if TYPE_CHECKING:
    from testbed.lab.lifecycle import LabStatus, Progress, UpResult
    from testbed.lab.port_status import PortStatus


@contextmanager
def phases(quiet: bool) -> Iterator[Progress]:
    """A progress bar per phase on a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda phase, done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description:>14}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        tasks = {}

        def report(phase: str, done: int, of: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=of)
            bars.update(tasks[phase], completed=done, total=of)

        yield report


def bring_up(lab: str, *, quiet: bool = False, within_ns: int | None = None) -> UpResult:
    """Bring a lab up from its file or name, with what the machine lacks said first, and the time where it is short."""
    from testbed import doctor
    from testbed.lab import lifecycle, limits
    from testbed.topology import library
    from testbed.topology.labfile import load_lab

    spec, source = load_lab(lab), library.find("topologies", lab)
    doctor.require("up")
    with phases(quiet) as progress:
        within_s = limits.UP_WITHIN_S if within_ns is None else within_ns / 1e9
        return lifecycle.up(spec, source, progress, within_s)


def up_line(made: UpResult) -> str:
    """What `up` found, in one line."""
    if made.already_up:
        return f"lab {made.lab} is up already"
    return (
        f"lab {made.lab} is up: {made.hosts} hosts, {made.switches} switches, {made.links} links, "
        f"{made.paths_verified} paths verified, in {made.seconds['total']:.2f} s"
    )


@click.command("up")
@click.argument("lab", default="demo")
@click.option("--dry-run", is_flag=True, help="Print what would be made, and make nothing.")
@click.option(
    "--within", type=DURATION, metavar="TIME", help="Refuse a lab that would take longer to bring up (default: 120 s)."
)
@json_option
def up_verb(lab: str, dry_run: bool, within: int | None, as_json: bool) -> None:
    """Bring up a lab. LAB is a lab file, or the name of one in topologies/ (default: demo)."""
    if dry_run:
        _dry_run(lab, as_json)
        return
    made = bring_up(lab, quiet=as_json, within_ns=within)

    def render() -> None:
        show(up_line(made))
        if not made.already_up:
            show(
                "  " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in made.seconds.items() if name != "total")
            )

    result(as_json, made.as_dict(), render)


def _dry_run(lab: str, as_json: bool) -> None:
    from dataclasses import asdict

    from testbed.fabric import plan
    from testbed.lab.lifecycle import refuse_what_only_sim_has
    from testbed.topology import clos
    from testbed.topology.labfile import load_lab

    spec = load_lab(lab)
    refuse_what_only_sim_has(spec)
    desired = plan.build(clos.build(spec))

    def render() -> None:
        for node in desired.nodes.values():
            show(f"{node.namespace}")
            for part in (
                node.interfaces,
                node.addresses,
                node.neighbours,
                node.routes,
                node.hops,
                node.sids,
                node.qdiscs,
                node.classes,
                node.filters,
                node.ports or (),
            ):
                for item in part:
                    show(f"  {item}")
        show(f"lab {desired.lab}: {len(desired.nodes)} namespaces, {desired.objects()} objects; nothing was made")

    result(as_json, {"lab": desired.lab, "nodes": {name: asdict(node) for name, node in desired.nodes.items()}}, render)


@click.command("down")
@click.argument("name", default="demo")
@json_option
@needs("down")
def down_verb(name: str, as_json: bool) -> None:
    """Remove the lab NAME and all it made, also after a crash. NAME is demo where none is given."""
    from testbed.lab import lifecycle, state

    with phases(quiet=as_json) as progress:
        gone = lifecycle.down(name, progress)
    removed = f"{gone.namespaces} namespaces and {gone.processes} processes removed in {gone.seconds:.2f} s"
    others = f" (up: {', '.join(state.names())})" if state.names() else ""
    text = f"lab {name} is down: {removed}" if gone.was_there else f"there is no lab {name}; nothing to do{others}"
    for pid, command in gone.readers.items():
        say(f"process {pid} ({command}) still reads counters of ports: those go when it ends")
    result(as_json, gone.as_dict(), lambda: show(text))


def _state(lab: LabStatus) -> str:
    return "healthy" if lab.healthy else lab.phase if lab.phase != "up" else "damaged"


@click.command("status")
@click.argument("name", required=False)
@click.option(
    "--ports", is_flag=True, help="What each port counted, and its queue: now, and the longest since asked last."
)
@json_option
@needs("status")
def status_verb(name: str | None, ports: bool, as_json: bool) -> int:
    """Compare a lab with its plan, and list its faults. Without NAME: the lab that is up."""
    if ports:
        _show_ports(name, as_json)
        return 0
    from testbed.cli.faults import faults_in_force
    from testbed.lab import lifecycle
    from testbed.lab.running import the_lab

    with the_lab(name) as lab:
        faults = faults_in_force(lab)
        found = lifecycle.status(lab.name)

    def render() -> None:
        show(f"lab {found.lab} is {_state(found)}: {found.hosts} hosts, {found.switches} switches, {found.links} links")
        show(
            f"  agents: {found.agents_alive} alive"
            + (f", dead: {', '.join(found.agents_dead)}" if found.agents_dead else "")
        )
        for daemon in found.routers_dead:
            show(f"  routing daemon dead: {daemon}")
        for _, text in faults:
            show(f"  fault {text}")
        for text in (*found.namespaces_missing, *found.differences):
            show(f"  differs: {text}")

    result(as_json, {**found.as_dict(), "faults": [told for told, _ in faults]}, render)
    return 0 if found.healthy or faults else 4


# Column of `status --ports` -> what it shows of a PortStatus
_PORT_COLUMNS: dict[str, Callable[[PortStatus], object]] = {
    "port": lambda port: port.name,
    "rate": lambda port: format_rate(port.settings.rate_bps),
    "packets": lambda port: port.counters.packets,
    "bytes": lambda port: port.counters.bytes,
    "marked": lambda port: port.counters.marked,
    "trimmed": lambda port: port.counters.trimmed,
    "dropped": lambda port: port.counters.dropped_queue,
    "control": lambda port: port.counters.dropped_control,
    "loss": lambda port: port.counters.dropped_loss,
    "black hole": lambda port: port.counters.dropped_black_hole,
    "queue": lambda port: port.queue_bytes,
    "longest": lambda port: port.queue_max_bytes,
}


def _show_ports(name: str | None, as_json: bool) -> None:
    from testbed.lab.port_status import statuses
    from testbed.lab.running import the_lab

    with the_lab(name) as lab:
        found = statuses(lab)

    def render() -> None:
        table(list(_PORT_COLUMNS), [[shown(port) for shown in _PORT_COLUMNS.values()] for port in found])
        show("packets dropped: by a full queue, in control, by a fault's loss, in a black hole; queues in bytes")

    result(as_json, {"lab": lab.name, "ports": {port.name: port.as_dict() for port in found}}, render)


@click.command("list")
@json_option
def list_verb(as_json: bool) -> None:
    """The labs that are up, and the lab files and scenarios there are."""
    from testbed.lab import lifecycle
    from testbed.topology import library

    (labs, unreadable), files = lifecycle.list_labs(), library.names("topologies")
    scenarios = library.names("scenarios")

    def render() -> None:
        if labs:
            rows = [[one.lab, _state(one), one.hosts, one.switches, one.links, one.source_file] for one in labs]
            table(["lab", "state", "hosts", "switches", "links", "from"], rows)
        elif not unreadable:
            say("no lab is up")
        for why in unreadable:
            say(why)
        show(f"lab files: {', '.join(files)}")
        show(f"scenarios: {', '.join(scenarios)}")

    told = {"labs": [one.as_dict() for one in labs], "unreadable": unreadable, "files": files, "scenarios": scenarios}
    result(as_json, told, render)
