"""The lab as a picture: JSON for tools, Graphviz and Mermaid text, and an SVG with a layout of its own.

In the SVG the planes stand side by side, each with its T1s above its T0s; the hosts are in one row below all of them,
by rack, and each plane has its colour. No program is needed for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from testbed.topology.clos import Clos, Link, Node
from testbed.topology.units import format_rate

PLANE_COLOURS = ("#3b6fb6", "#d1762b", "#3d9455", "#b8423f", "#7d5bb0", "#8a6044", "#c4609c", "#5f7f86")

# SVG layout, in pixels
_GAP = 8  # between boxes of one row
_PLANE_GAP = 36
_MARGIN = 24
_BOX_HEIGHT = 20
_CHARACTER_WIDTH = 6.6  # of the 11 px monospace labels
_TITLE_Y, _TOP_ROW_Y = 24, 56
_STEEPNESS = 0.1  # height of the two layers of links by the width of what they join: flat links cannot be told apart
_LEAST_LAYER_HEIGHT = 110
_LEAST_WIDTH = 560  # room for the title


def to_json(clos: Clos) -> str:
    """`nodes` [{name, kind, plane}] and `links` [{name, a, b, tier, plane}]; a host's plane is null."""
    return json.dumps(to_dict(clos), indent=2)


def to_dict(clos: Clos) -> dict[str, list[dict[str, str | int | None]]]:
    """What `to_json` writes, as data."""
    return {
        "nodes": [{"name": node.name, "kind": node.kind, "plane": node.plane} for node in clos.nodes.values()],
        "links": [
            {"name": link.name, "a": link.a.node, "b": link.b.node, "tier": link.tier, "plane": link.plane}
            for link in clos.links.values()
        ],
    }


def to_dot(clos: Clos) -> str:
    """Graphviz: `dot -Tsvg`."""
    lines = [f'graph "{clos.spec.name}" {{', "  rankdir=BT; node [shape=box];"]
    for plane in range(clos.spec.planes):
        names = "; ".join(f'"{node.name}"' for node in clos.switches if node.plane == plane)
        lines.append(f'  subgraph "cluster_plane{plane}" {{ label="plane {plane}"; {names} }}')
    lines += [f'  "{node.name}" [shape=ellipse];' for node in clos.hosts]
    lines += [f'  "{link.a.node}" -- "{link.b.node}" [color="{_colour(link)}"];' for link in clos.links.values()]
    return "\n".join([*lines, "}"]) + "\n"


def to_mermaid(clos: Clos) -> str:
    """Mermaid, as Markdown viewers draw it."""
    lines = ["flowchart BT"]
    lines += [f"  {_mermaid_id(node.name)}([{node.name}])" for node in clos.hosts]
    for plane in range(clos.spec.planes):
        lines.append(f'  subgraph plane{plane}["plane {plane}"]')
        lines += [f"    {_mermaid_id(node.name)}[{node.name}]" for node in clos.switches if node.plane == plane]
        lines.append("  end")
    lines += [f"  {_mermaid_id(link.a.node)} --- {_mermaid_id(link.b.node)}" for link in clos.links.values()]
    return "\n".join(lines) + "\n"


def to_svg(clos: Clos) -> str:
    """A self-contained SVG. Each box and line has a `<title>` with its name, which browsers show on hover."""
    boxes, width, height = _layout(clos)
    spec = clos.spec
    title = (
        f"{spec.name}: {spec.planes} planes, {spec.t0_groups} racks of {spec.hosts_per_t0} hosts, "
        f"{spec.t1s_per_plane} T1s per plane, {format_rate(spec.rates.host)} per NIC port"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" font-family="monospace" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="{_TITLE_Y}" font-family="sans-serif" font-size="14">{escape(title)}</text>',
        *(_svg_line(link, boxes) for link in clos.links.values()),
        *(_svg_box(node, boxes[node.name]) for node in clos.nodes.values()),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


FORMATS: dict[str, Callable[[Clos], str]] = {"svg": to_svg, "dot": to_dot, "mermaid": to_mermaid, "json": to_json}


@dataclass(frozen=True, slots=True)
class _Box:
    x: float  # of its middle
    top: float
    width: float


def _layout(clos: Clos) -> tuple[dict[str, _Box], float, int]:
    """(box of each node, width, height): every row takes the room it needs, and is spread over the widest."""
    planes = [[node for node in clos.switches if node.plane == plane] for plane in range(clos.spec.planes)]
    plane_width = max(_row_width([n for n in planes[0] if n.kind == kind]) for kind in ("t0", "t1"))
    switches_width = len(planes) * plane_width + (len(planes) - 1) * _PLANE_GAP
    width = max(_LEAST_WIDTH, switches_width, _row_width(clos.hosts) + _GAP * (clos.spec.t0_groups - 1))
    t0_top = _TOP_ROW_Y + _BOX_HEIGHT + max(_LEAST_LAYER_HEIGHT, round(plane_width * _STEEPNESS))
    host_top = t0_top + _BOX_HEIGHT + max(_LEAST_LAYER_HEIGHT, round(width * _STEEPNESS))
    boxes: dict[str, _Box] = {}
    pitch = (width + _PLANE_GAP) / len(planes)
    for plane, switches in enumerate(planes):
        for kind, top in (("t1", _TOP_ROW_Y), ("t0", t0_top)):
            row = [node for node in switches if node.kind == kind]
            boxes |= _spread(row, [_MARGIN + plane * pitch, pitch - _PLANE_GAP], top)
    rack_pitch = (width + _GAP) / clos.spec.t0_groups
    for rack in range(clos.spec.t0_groups):
        hosts = [node for node in clos.hosts if clos.group_of(node.index) == rack]
        boxes |= _spread(hosts, [_MARGIN + rack * rack_pitch, rack_pitch - 2 * _GAP], host_top)
    return boxes, width + 2 * _MARGIN, host_top + _BOX_HEIGHT + _MARGIN


def _spread(row: list[Node], room: list[float], top: int) -> dict[str, _Box]:
    """Boxes of a row at equal distances in `room` (left, width)."""
    left, width = room
    pitch = width / len(row)
    return {node.name: _Box(left + (place + 0.5) * pitch, top, _box_width(node.name)) for place, node in enumerate(row)}


def _box_width(name: str) -> float:
    return len(name) * _CHARACTER_WIDTH + 8


def _row_width(nodes: list[Node]) -> float:
    return len(nodes) * (max(_box_width(node.name) for node in nodes) + _GAP)


def _colour(link: Link) -> str:
    return PLANE_COLOURS[link.plane % len(PLANE_COLOURS)]


def _svg_line(link: Link, boxes: dict[str, _Box]) -> str:
    near, far = boxes[link.a.node], boxes[link.b.node]
    return (
        f'<line x1="{near.x:.1f}" y1="{near.top}" x2="{far.x:.1f}" y2="{far.top + _BOX_HEIGHT}" '
        f'stroke="{_colour(link)}" stroke-opacity="0.55"><title>{escape(link.name)}</title></line>'
    )


def _svg_box(node: Node, box: _Box) -> str:
    colour = "#333333" if node.plane is None else PLANE_COLOURS[node.plane % len(PLANE_COLOURS)]
    radius = 9 if node.kind == "host" else 2
    return (
        f'<g><title>{escape(node.name)}</title><rect x="{box.x - box.width / 2:.1f}" y="{box.top}" '
        f'width="{box.width:.1f}" height="{_BOX_HEIGHT}" rx="{radius}" fill="#ffffff" stroke="{colour}"/>'
        f'<text x="{box.x:.1f}" y="{box.top + 14}" text-anchor="middle">{escape(node.name)}</text></g>'
    )


def _mermaid_id(name: str) -> str:
    return name.replace("-", "_")
