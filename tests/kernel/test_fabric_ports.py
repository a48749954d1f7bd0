"""Flaps: after a port of a lab was down and is back, both ends of its link are exactly as before."""

from __future__ import annotations

import random

import pytest

from testbed.fabric import counters, observe
from testbed.lab.running import RunningLab
from testbed.topology.clos import Link

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]


def snapshot(lab: RunningLab, link: Link) -> dict[str, observe.NodePlan]:
    return observe.snapshot(lab.kernel, [port.node for port in link.ends()])


def flap(lab: RunningLab, link: Link, end: int) -> None:
    port = link.ends()[end]
    lab.ports.take_down(port)
    assert not counters.carrier(lab.kernel, link.a)
    lab.ports.bring_up(port)


def test_down_alone_loses_routes_for_good(tiny: RunningLab) -> None:
    """Why `bring_up` has work to do: what the plain setting up of a device does not bring back."""
    link = tiny.clos.links["p0t0-0:p0t1-0"]
    tiny.ports.take_down(link.a)
    try:
        node = observe.node(tiny.kernel, link.a.node)
        lost = [item for item in observe.compare(tiny.plan.nodes[link.a.node], node) if item.section != "sysctls"]
        assert {(item.section, item.reason) for item in lost} == {
            ("interfaces", "up is False, planned True"),
            ("neighbours", "missing"),
            ("routes", "missing"),
        }
    finally:
        tiny.ports.bring_up(link.a)


@pytest.mark.parametrize("end", [0, 1], ids=["near", "far"])
def test_a_flap_of_each_link_leaves_both_ends_as_before(tiny: RunningLab, end: int) -> None:
    for link in tiny.clos.links.values():
        before = snapshot(tiny, link)
        flap(tiny, link, end)
        assert snapshot(tiny, link) == before, link.name
    assert observe.differences(tiny.plan, tiny.kernel) == []


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("end", [0, 1], ids=["near", "far"])
def test_50_flaps_of_each_link_leave_both_ends_as_before(tiny: RunningLab, end: int) -> None:
    for link in tiny.clos.links.values():
        before = snapshot(tiny, link)
        for _ in range(50):
            flap(tiny, link, end)
        assert snapshot(tiny, link) == before, link.name
    assert observe.differences(tiny.plan, tiny.kernel) == []


def test_flaps_of_many_ports_at_once_leave_the_lab_as_planned(tiny: RunningLab, rng: random.Random) -> None:
    ports = [port for link in tiny.clos.links.values() for port in link.ends()]
    for _ in range(5):
        chosen = rng.sample(ports, len(ports) // 2)
        for port in chosen:
            tiny.ports.take_down(port)
        rng.shuffle(chosen)
        for port in chosen:
            tiny.ports.bring_up(port)
    assert observe.differences(tiny.plan, tiny.kernel) == []


def test_bringing_up_what_is_up_changes_nothing(tiny: RunningLab) -> None:
    link = tiny.clos.links["h0:p0t0-0"]
    before = snapshot(tiny, link)
    for port in link.ends():
        tiny.ports.bring_up(port)
    assert snapshot(tiny, link) == before
