"""Pictures of a lab: the JSON contract, and SVGs in which every node and link can be seen and told apart."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from labs import lab

from testbed.topology import clos, graph, library
from testbed.topology.clos import Clos
from testbed.topology.labfile import load_lab

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(params=library.names("topologies"))
def shipped(request: pytest.FixtureRequest) -> Clos:
    return clos.build(load_lab(request.param))


def test_json_keeps_its_contract() -> None:
    data = json.loads(graph.to_json(lab()))
    assert data["nodes"][0] == {"name": "h0", "kind": "host", "plane": None}
    assert {"name": "p3t1-2", "kind": "t1", "plane": 3} in data["nodes"]
    assert {"name": "h3:p2t0-0", "a": "h3", "b": "p2t0-0", "tier": "nic-t0", "plane": 2} in data["links"]
    assert {"name": "p0t0-1:p0t1-3", "a": "p0t0-1", "b": "p0t1-3", "tier": "t0-t1", "plane": 0} in data["links"]


@pytest.mark.parametrize("form", graph.FORMATS)
def test_every_form_names_every_node(form: str) -> None:
    fabric = lab()
    text = graph.FORMATS[form](fabric)
    assert all(name in text for name in fabric.nodes)


def test_dot_and_mermaid_have_a_line_for_each_link() -> None:
    fabric = lab()
    assert graph.to_dot(fabric).count(" -- ") == graph.to_mermaid(fabric).count(" --- ") == len(fabric.links)


def rectangles(svg: ET.Element) -> dict[str, tuple[float, float, float, float]]:
    """Name -> (left, top, right, bottom) of the box of each node."""
    found = {}
    for group in svg.iter(f"{SVG}g"):
        title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None and rect is not None and title.text
        x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        found[title.text] = (x, y, x + width, y + height)
    return found


def test_svg_boxes_do_not_overlap_and_are_inside_the_picture(shipped: Clos) -> None:
    svg = ET.fromstring(graph.to_svg(shipped))
    boxes = rectangles(svg)
    assert set(boxes) == set(shipped.nodes)
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    rows: dict[float, list[tuple[float, float, float, float]]] = {}
    for box in boxes.values():
        left, top, right, bottom = box
        assert left >= 0 and top >= 0 and right <= width and bottom <= height
        rows.setdefault(top, []).append(box)
    assert len(rows) == 3
    for row in map(sorted, rows.values()):
        assert all(left[2] < right[0] for left, right in pairwise(row))


def test_svg_draws_each_link_between_its_boxes(shipped: Clos) -> None:
    svg = ET.fromstring(graph.to_svg(shipped))
    boxes = rectangles(svg)
    lines = {line.findtext(f"{SVG}title"): line.attrib for line in svg.iter(f"{SVG}line")}
    assert set(lines) == set(shipped.links)
    for name, line in lines.items():
        near, far = (boxes[port.node] for port in shipped.links[str(name)].ends())
        assert near[0] < float(line["x1"]) < near[2] and float(line["y1"]) == near[1]
        assert far[0] < float(line["x2"]) < far[2] and float(line["y2"]) == far[3]


def test_planes_have_colours_of_their_own() -> None:
    assert len(set(graph.PLANE_COLOURS)) == 8
