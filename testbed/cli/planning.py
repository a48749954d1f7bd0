"""`mrclab plan`: how many switches, links and optics so many hosts need, with planes and without. Pure arithmetic."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from testbed.cli.output import json_option, result, show, table

if TYPE_CHECKING:
    from testbed.topology.planner import Fabric, Plan


@click.command("plan")
@click.option("--hosts", type=int, default=131_072, show_default=True, help="Hosts to connect.")
@click.option("--radix", type=int, default=64, show_default=True, help="Ports of a switch at full NIC speed.")
@click.option("--planes", type=int, default=8, show_default=True, help="Planes, with one port of each NIC in each.")
@json_option
def plan_verb(hosts: int, radix: int, planes: int, as_json: bool) -> None:
    """Two tiers in planes against three tiers in one, on paper. Switches, links, optics, and what a dead link costs."""
    from testbed.topology.planner import plan

    planned = plan(hosts, radix, planes)
    result(as_json, _told(planned), lambda: _show(planned))


def _told(planned: Plan) -> dict[str, Any]:
    return {
        "hosts": planned.hosts,
        "radix": planned.radix,
        "multi_plane": asdict(planned.multi) | {"fits": planned.multi.fits},
        "single_plane": asdict(planned.single) | {"fits": planned.single.fits},
        "switch_ratio": planned.switch_ratio,
        "optics_ratio": planned.optics_ratio,
        "addressable": planned.addressable,
    }


def _show(planned: Plan) -> None:
    ways = (planned.multi, planned.single)
    rows: list[list[Any]] = [
        ["tiers", *(way.tiers for way in ways)],
        ["ports of a switch", *(way.radix for way in ways)],
        ["hosts at most", *(f"{way.max_hosts:,}" for way in ways)],
        [f"switches for {planned.hosts:,} hosts", *(_switches(way) for way in ways)],
        ["switches per host, full", *(f"{way.switches_per_host:.4f}" for way in ways)],
        ["host links, each 1/planes of a NIC", *(_count(way.links_host) for way in ways)],
        ["links between switches", *(_count(way.links_up) for way in ways)],
        ["layers of optics", *(way.layers for way in ways)],
        ["switches on the longest path", *(way.longest_path_switches for way in ways)],
        ["paths between two hosts", *(f"{way.paths:,}" for way in ways)],
        ["one T0-T1 link takes of a T0's uplinks", *(f"{way.link_loss_fraction:.2%}" for way in ways)],
        ["one NIC link takes of a host", *(f"{way.nic_link_loss_fraction:.1%}" for way in ways)],
    ]
    names = [f"{way.planes} plane{'s' if way.planes > 1 else ''}" for way in ways]
    table(["", *names], rows)
    show()
    switches, optics = f"{planned.switch_ratio:.0%}", f"{planned.optics_ratio:.0%}"
    show(f"Per host the planes need {switches} of the switches and {optics} of the optics.")
    room = "have room for" if planned.addressable else "are too small for"
    show(f"mrclab's uSIDs {room} the fabric with planes.")


def _switches(way: Fabric) -> str:
    if way.switches is None:
        return "do not fit"
    tiers = " + ".join(f"{count:,} {tier}" for tier, count in way.switches.items())
    return f"{sum(way.switches.values()):,} ({tiers})"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
