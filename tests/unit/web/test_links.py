"""testbed.web.links: probing is switched on and off for the page, and what others switched on is only shown."""

from __future__ import annotations

from random import Random

import pytest

from agents.clustermapper.element import Element
from agents.clustermapper.settings import Settings
from testbed.measure.view import Message, View
from testbed.topology import clos
from testbed.web.links import LOOK_NS, LinkMap
from tests.unit.health.test_gather import SPEC, FabricAgents


class Page:
    """A map, looked at whenever it may be."""

    def __init__(self, agents: FabricAgents) -> None:
        self.links = LinkMap(agents, SPEC)
        self._agents = agents
        self._view = View(clos.build(SPEC), 0)
        self._looks = 0

    def after(self, intervals: float) -> tuple[list[str], Message]:
        """What is told then: events in words, and the map."""
        self._agents.fabric.run(intervals)
        self._looks += 1
        *events, found = self.links.look(self._view, self._looks * LOOK_NS)
        return [event["text"] for event in events], found


@pytest.fixture
def agents(rng: Random) -> FabricAgents:
    return FabricAgents(rng)


def switch_off(agents: FabricAgents) -> None:
    for prober in agents.fabric.hosts:
        prober.configure(Settings(), agents.fabric.now)


def test_probing_goes_on_from_start_to_stop(agents: FabricAgents) -> None:
    switch_off(agents)
    page = Page(agents)
    assert page.after(0)[1]["probed"] is False and page.links.of("p0t0-0") is None
    page.links.start()
    _, found = page.after(6)
    assert (found["probed"], found["ours"]) == (True, True)
    page.links.stop()
    assert page.after(1)[1]["probed"] is False


def test_what_others_switched_on_is_shown_and_left_on(agents: FabricAgents) -> None:
    page = Page(agents)
    page.links.start()
    events, found = page.after(20)
    assert (found["probed"], found["ours"], found["counts"]) == (True, False, {"ok": 44})
    assert events == [] and found["elements"] == {}
    agents.fabric.losses = {Element("t0-t1", 0, 0, 2): 1.0}
    (event,), found = page.after(12)
    assert event.startswith("PROBES     p0t0-0:p0t1-2 ok -> down") and "found by h" in event
    assert list(found["elements"]) == ["p0t0-0:p0t1-2"] and page.links.of("p0t0-0:p0t1-2") is not None
    page.links.stop()
    assert page.after(1)[1]["probed"] is True


def test_a_look_comes_once_in_a_while(agents: FabricAgents) -> None:
    links, view = LinkMap(agents, SPEC), View(clos.build(SPEC), 0)
    assert links.look(view, 0) != [] and links.look(view, LOOK_NS - 1) == [] and links.look(view, LOOK_NS) != []
