"""Which element is accused for what the probes show, and that no other is."""

from __future__ import annotations

from random import Random

import pytest

from agents.clustermapper.element import Element
from agents.clustermapper.evidence import probes_needed, probes_needed_apart
from agents.clustermapper.localise import NIC_LINK, SWITCH, T0_T1_LINK
from tests.unit.clustermapper.rack import INTERVAL_NS, RTT_NS, SHAPE, Fabric, Shape

ONE_OF_EACH = [Element("nic-t0", 0, 1), Element("t0", 1, 1), Element("t0-t1", 1, 0, 2), Element("t1", 0, 3)]
TWO_AT_ONCE = [
    (Element("nic-t0", 0, 1), Element("t0-t1", 0, 0, 1)),
    (Element("t0-t1", 0, 0, 1), Element("t0-t1", 0, 1, 2)),
    (Element("t0-t1", 0, 0, 1), Element("t1", 0, 3)),
    (Element("t0", 0, 0), Element("nic-t0", 0, 5)),
    (Element("nic-t0", 1, 2), Element("t1", 0, 0)),
]


def part_of(element: Element, shape: Shape = SHAPE) -> set[Element]:
    """What may be accused before all probes have spoken: the element, and of a switch the links that fail with it."""
    _, plane, near, _ = element
    if element.kind == "t0":
        links = {Element("t0-t1", plane, near, t1) for t1 in range(shape.t1s_per_plane)}
        return {element} | links | {Element("nic-t0", plane, host) for host in shape.rack(near)}
    if element.kind == "t1":
        return {element} | {Element("t0-t1", plane, t0, near) for t0 in range(shape.t0_groups)}
    return {element}


@pytest.mark.parametrize("element", ONE_OF_EACH)
def test_a_dead_element_is_found_within_ten_intervals(element: Element, rng: Random) -> None:
    fabric = Fabric(rng)
    fabric.run(20 + rng.random())
    assert fabric.accused() == {}
    fabric.losses = {element: 1.0}
    fabric.run(10, lambda: _none_else(fabric, {element}))
    assert fabric.accused() == {element: "down"}
    since = next(finding for finding in fabric.findings() if finding.element == element).since_ns
    assert fabric.now - 11 * INTERVAL_NS <= since <= fabric.now - 8 * INTERVAL_NS
    fabric.losses = {}
    fabric.run(15)
    assert fabric.accused() == {} and {finding.state for finding in fabric.findings()} == {"ok"}


@pytest.mark.parametrize("both", TWO_AT_ONCE)
def test_two_dead_elements_are_both_found(both: tuple[Element, Element], rng: Random) -> None:
    fabric = Fabric(rng)
    fabric.run(20)
    fabric.losses = dict.fromkeys(both, 1.0)
    fabric.run(15, lambda: _none_else(fabric, set(both)))
    found = fabric.accused()
    hidden = {Element("t0-t1", 0, 0, 1)} if both[0] == Element("nic-t0", 0, 1) else set()
    # h1 was the one to probe that link, and its own link is dead: only when shares are dealt anew it shows
    assert set(both) - hidden <= set(found)


@pytest.mark.parametrize("one_way", [True, False], ids=["one way", "both ways"])
@pytest.mark.parametrize("element", [Element("nic-t0", 0, 1), Element("t0-t1", 0, 0, 2)])
def test_loss_is_found_within_the_probes_that_the_test_needs(element: Element, one_way: bool, rng: Random) -> None:
    shape = Shape(planes=1, t0_groups=2, hosts_per_t0=4, t1s_per_plane=4)
    loss = 0.05 if one_way else 1 - 0.95**2
    needed = (probes_needed if element.kind == "nic-t0" else probes_needed_apart)(loss)
    fabric = Fabric(rng, shape)
    fabric.run(1100)  # a long good past hides nothing
    fabric.losses, fabric.one_way = {element: 0.05}, one_way
    found: list[float] = []

    def look() -> None:
        _none_else(fabric, {element})
        if fabric.accused() and not found:
            found.append(fabric.now)

    fabric.run(needed + 6, look)
    assert found


def test_loss_of_a_whole_t1_is_the_t1s(rng: Random) -> None:
    fabric = Fabric(rng, Shape(planes=1, t0_groups=2, hosts_per_t0=4, t1s_per_plane=4))
    fabric.losses = {Element("t1", 0, 1): 0.1}
    fabric.run(2 * probes_needed_apart(0.1))
    assert fabric.accused() == {Element("t1", 0, 1): "lossy"}


def test_a_lossy_nic_link_does_not_accuse_what_is_behind_it(rng: Random) -> None:
    fabric = Fabric(rng)
    fabric.losses = {Element("nic-t0", 0, 1): 0.1}
    fabric.run(300, lambda: _none_else(fabric, {Element("nic-t0", 0, 1)}))
    states = {finding.element: finding for finding in fabric.findings()}
    behind = states[Element("t0-t1", 0, 0, 1 - 0)]
    assert behind.state == "unknown" and "behind" in behind.why and behind.confidence == 0


def test_a_mended_link_is_not_blamed_for_the_probes_that_it_still_swallowed(rng: Random) -> None:
    fabric, link, seen = Fabric(rng), Element("t0-t1", 0, 0, 2), []
    fabric.run(20)
    fabric.losses = {link: 1.0}
    fabric.run(12)
    assert fabric.accused() == {link: "down"}
    fabric.losses = {}
    fabric.run(12, lambda: seen.extend(one for one in fabric.findings() if one.element == link))
    assert {one.state for one in seen} == {"unknown", "ok"} and not any(one.loss for one in seen)


def test_with_one_rack_silent_a_t1_and_its_link_are_suspects(rng: Random) -> None:
    fabric = Fabric(rng)
    fabric.run(20)
    fabric.silent = {4, 5, 6, 7}
    fabric.losses = {Element("t1", 0, 3): 1.0}
    fabric.run(12)
    states = {finding.element: finding.state for finding in fabric.findings()}
    assert states[Element("t1", 0, 3)] == states[Element("t0-t1", 0, 0, 3)] == "suspect"
    assert states[Element("t0", 0, 1)] == states[Element("nic-t0", 0, 4)] == "unknown"
    assert fabric.accused() == {}


def test_a_port_without_carrier_is_down_for_sure(rng: Random) -> None:
    fabric = Fabric(rng)
    fabric.run(20)
    fabric.hosts[2].set_port_up(1, False, fabric.now)
    fabric.run(1)
    finding = next(finding for finding in fabric.findings() if finding.element == Element("nic-t0", 1, 2))
    assert (finding.state, finding.confidence, finding.since_ns) == ("down", 1.0, 20 * INTERVAL_NS)
    assert "carrier" in finding.why


def test_a_slow_link_is_not_a_lossy_one(rng: Random) -> None:
    fabric = Fabric(rng, Shape(planes=2, t0_groups=2, hosts_per_t0=4, t1s_per_plane=4, slow_ns=10 * RTT_NS))
    fabric.rtt_ns = lambda host, plane: 20 * RTT_NS if (host, plane) == (5, 1) else RTT_NS
    fabric.run(60)
    assert fabric.accused() == {Element("nic-t0", 1, 5): "slow"}


@pytest.mark.parametrize("table", [NIC_LINK, T0_T1_LINK, SWITCH])
def test_every_table_ends_with_a_row_that_always_fits(table: tuple[tuple[object, ...], ...]) -> None:
    assert len({row[-1] for row in table}) == len(table)


def _none_else(fabric: Fabric, at_fault: set[Element]) -> None:
    allowed = {part for element in at_fault for part in part_of(element, fabric.shape)}
    assert set(fabric.accused()) <= allowed, f"at interval {fabric.now / INTERVAL_NS:.1f}"
