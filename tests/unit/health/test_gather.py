"""Gathering: the map by names, what changes from look to look, shares dealt anew, hosts that do not probe or answer."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from agents.clustermapper.element import Element
from agents.clustermapper.settings import Settings
from testbed.health.gather import Mapper
from testbed.health.names import name_of, shape_of
from testbed.topology import clos
from testbed.topology.errors import MrclabError
from testbed.topology.labspec import LabSpec
from tests.unit.clustermapper.rack import INTERVAL_NS, Fabric

SPEC = LabSpec.model_validate({"name": "lab", "planes": 2, "t0_groups": 2, "hosts_per_t0": 4, "t1s_per_plane": 4})


class FabricAgents:
    """A fabric of probers, asked as agents are."""

    def __init__(self, rng: Random) -> None:
        self.fabric = Fabric(rng, shape_of(SPEC))
        self.told: list[tuple[str, str]] = []

    def ask_each(
        self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]], *, within_s: float
    ) -> tuple[dict[str, dict[str, Any]], dict[str, MrclabError]]:
        answers: dict[str, dict[str, Any]] = {}
        failures: dict[str, MrclabError] = {}
        for name, fields in fields_by_host.items():
            host = int(name[1:])
            prober, now = self.fabric.hosts[host], self.fabric.now
            if host in self.fabric.silent:
                failures[name] = MrclabError("no answer")
                continue
            if op == "health":
                answers[name] = {"report": prober.report(now).as_dict()}
                continue
            self.told.append((op, name))
            if op == "health-share":
                prober.share(dict(enumerate(fields["t1s"])), now)
            else:
                prober.configure(Settings(**fields), now)
            answers[name] = {}
        return answers, failures


@pytest.fixture
def agents(rng: Random) -> FabricAgents:
    return FabricAgents(rng)


def test_every_link_and_switch_of_the_lab_has_its_name() -> None:
    model = clos.build(SPEC)
    names = {name_of(element, 4) for element in (
        *(Element("nic-t0", plane, host) for plane in range(2) for host in range(8)),
        *(Element("t0", plane, t0) for plane in range(2) for t0 in range(2)),
        *(Element("t1", plane, t1) for plane in range(2) for t1 in range(4)),
        *(Element("t0-t1", plane, t0, t1) for plane in range(2) for t0 in range(2) for t1 in range(4)),
    )}  # fmt: skip
    assert names == {*model.links, *(switch.name for switch in model.switches)}


def test_changes_are_told_once(agents: FabricAgents) -> None:
    mapper = Mapper(agents, SPEC)
    agents.fabric.run(20)
    assert {change.finding.state for change in mapper.look().changes} == {"ok"}
    assert mapper.look().changes == ()
    agents.fabric.losses = {Element("t0-t1", 0, 0, 2): 1.0}
    agents.fabric.run(12)
    (change,) = mapper.look().changes
    assert (change.name, change.old, change.finding.state) == ("p0t0-0:p0t1-2", "ok", "down")
    assert mapper.look().changes == () and agents.told == []


def test_a_host_that_does_not_answer_is_named_and_its_share_dealt(agents: FabricAgents) -> None:
    mapper = Mapper(agents, SPEC)
    agents.fabric.run(20)
    mapper.look()
    agents.fabric.silent = {1}
    found = mapper.look()
    assert found.silent == ("h1",) and found.findings["h1:p0t0-0"].state == "unknown"
    assert {name for op, name in agents.told if op == "health-share"} <= {"h0", "h2", "h3"}
    agents.fabric.run(10)
    found = mapper.look()
    assert all(found.findings[f"p{plane}t0-0:p{plane}t1-{t1}"].state == "ok" for plane in range(2) for t1 in range(4))
    assert found.accused == {}


def test_a_t0_that_is_dead_changes_no_share(agents: FabricAgents) -> None:
    mapper = Mapper(agents, SPEC)
    agents.fabric.run(20)
    agents.fabric.losses = {Element("t0", 1, 0): 1.0}
    for _ in range(12):
        agents.fabric.run(1)
        mapper.look()
    assert mapper.look().accused == {"p1t0-0": "down"}
    agents.fabric.losses = {}
    agents.fabric.run(30)
    assert mapper.look().accused == {}


def test_hosts_that_do_not_probe_are_told_to(agents: FabricAgents) -> None:
    settings = {"interval_ns": INTERVAL_NS, "policy": "observe"}
    agents.fabric.hosts[3].configure(Settings(), agents.fabric.now)
    mapper = Mapper(agents, SPEC, settings)
    assert "h3" not in mapper.look().denied and ("health-set", "h3") in agents.told
    agents.fabric.run(20)
    assert {finding.state for finding in mapper.look().findings.values()} == {"ok"}


def test_only_who_was_idle_is_let_go(agents: FabricAgents) -> None:
    agents.fabric.hosts[3].configure(Settings(), agents.fabric.now)
    mapper = Mapper(agents, SPEC, {"interval_ns": INTERVAL_NS, "policy": "observe"})
    mapper.look()
    mapper.let_go()
    idle = [host for host, prober in enumerate(agents.fabric.hosts) if prober.settings.policy == "off"]
    assert idle == [3]
