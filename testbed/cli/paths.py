"""`mrclab trace` and `mrclab graph`: where packets go, and what the fabric looks like. Only `--probe` needs root."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from testbed.cli.output import json_option, result, show, table

if TYPE_CHECKING:
    from testbed.topology.clos import Clos
    from testbed.topology.trace import Trace

FORMATS = ("svg", "dot", "mermaid", "json")


def _ev_number(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A 32-bit number, in decimal or as 0x..."""
    try:
        return None if value is None else int(value, 0)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not an EV; write it like 0x0020c000 or as a decimal number") from None


def _fabric(lab: str | None) -> Clos:
    """The Clos of a lab that is up, else of a lab file."""
    from testbed.lab.running import default_lab, spec_of
    from testbed.topology import clos

    return clos.build(spec_of(lab or default_lab()))


def _told(way: Trace) -> dict[str, object]:
    return {**way.as_dict(), "ev": f"{way.ev:#010x}"}


@click.command("trace")
@click.argument("src")
@click.argument("dst")
@click.option("--ev", metavar="EV", callback=_ev_number, help="Only the path of this EV.")
@click.option(
    "--probe", is_flag=True, help="Send a probe over it, and show which switches counted it (needs the lab up)."
)
@click.option("--lab", help="A lab that is up, or a lab file; default: the one that is up, else demo.")
@json_option
def trace_verb(src: str, dst: str, ev: int | None, probe: bool, lab: str | None, as_json: bool) -> int:
    """The uSIDs and nodes of the paths from host SRC to host DST. `*` marks the one of ordinary tools such as ping."""
    from testbed.topology.trace import trace, traces

    fabric = _fabric(lab)
    if probe and ev is None:
        raise click.UsageError("--probe goes over one path: name it with --ev (mrclab trace without it lists them)")
    if not fabric.spec.source_routed:
        return _hashed(fabric, src, dst, ev, probe, as_json)
    if ev is None:
        _show_all(fabric, traces(fabric, src, dst), as_json)
        return 0
    way = trace(fabric, src, dst, ev)
    if probe:
        return _show_proof(fabric, way, as_json)
    result(as_json, _told(way), lambda: _show_way(way))
    return 0


def _show_all(fabric: Clos, ways: list[Trace], as_json: bool) -> None:
    from testbed.fabric.plan import kernel_path_ev

    src, dst = fabric.nodes[ways[0].src].index, fabric.nodes[ways[0].dst].index
    plane, t1 = kernel_path_ev(fabric, src, dst)
    told = [_told(way) | {"ordinary": way.plane == plane and way.t1 in (t1, None)} for way in ways]

    def render() -> None:
        rows = [
            ["*" if one["ordinary"] else "", one["ev"], ":".join(way.usids), " ".join(way.nodes)]
            for one, way in zip(told, ways, strict=True)
        ]
        table(["", "EV", "uSIDs", "nodes"], rows)

    result(as_json, {"src": ways[0].src, "dst": ways[0].dst, "evs": told}, render)


def _show_way(way: Trace) -> None:
    show(f"EV {way.ev:#010x}: {' '.join(way.nodes)}")
    show(f"  uSIDs {':'.join(way.usids)}, outer address {way.outer_address}, inner address {way.inner_address}")


def _show_proof(fabric: Clos, way: Trace, as_json: bool) -> int:
    from testbed.lab.running import open_lab
    from testbed.lab.verify import prove

    with open_lab(fabric.spec.name) as running:
        proof = prove(fabric, running.kernel, running.agent(way.src), way)

    def render() -> None:
        _show_way(way)
        if proof.answered and proof.rtt_ns is not None:
            show(f"  answered in {proof.rtt_ns / 1e6:.2f} ms; counted by {', '.join(proof.crossed)}")
        else:
            show(f"  no answer; counted by {', '.join(proof.crossed) or 'no switch'}")
        if proof.others:
            show("  other traffic is on its way too, so that the counters prove less")

    result(as_json, _told(way) | proof.as_dict(), render)
    return 0 if proof.answered else 1


def _hashed(fabric: Clos, src: str, dst: str, ev: int | None, probe: bool, as_json: bool) -> int:
    """Where the fabric hashes, all paths are open to every EV, and only a probe says which one it takes."""
    from testbed.lab.running import open_lab
    from testbed.lab.verify_hashed import prove_hashed
    from testbed.topology.errors import InputError
    from testbed.topology.trace import traces

    ways = [way.nodes for way in traces(fabric, src, dst)]
    if ev is None:
        told = {"src": src, "dst": dst, "routing": fabric.spec.routing, "paths": ways}
        result(as_json, told, lambda: table(["nodes"], [[" ".join(nodes)] for nodes in ways]))
        return 0
    if not probe:
        why = f"lab {fabric.spec.name} hashes (routing: {fabric.spec.routing}): an EV does not say where it goes"
        raise InputError(why, "send one and see: add --probe")
    with open_lab(fabric.spec.name) as running:
        ends, agent = (src, dst), running.agent(src)
        (proof,) = prove_hashed(fabric, running.port_map, running.ev_uses, agent, ends, [ev])

    def render() -> None:
        show(f"EV {ev:#010x} from {src} to {dst}: {' '.join(proof.nodes) or 'crossed no T0-T1 link'}")
        if proof.answered and proof.rtt_ns is not None:
            show(f"  answered in {proof.rtt_ns / 1e6:.2f} ms, over {' '.join(proof.nodes_back) or 'no T0-T1 link'}")
        else:
            show("  no answer")

    result(as_json, {"src": src, "dst": dst, **proof.as_dict()}, render)
    return 0 if proof.answered else 1


@click.command("graph")
@click.argument("lab", required=False)
@click.option("--format", "form", type=click.Choice(FORMATS), default="svg", show_default=True)
def graph_verb(lab: str | None, form: str) -> None:
    """Draw a lab on stdout. LAB is one that is up, or a lab file; default: the one that is up, else demo."""
    from testbed.topology import graph

    draw = {"svg": graph.to_svg, "dot": graph.to_dot, "mermaid": graph.to_mermaid, "json": graph.to_json}[form]
    show(draw(_fabric(lab)))
