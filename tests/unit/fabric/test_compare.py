"""Comparing a node with its plan: every kind of deviation is found and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.fabric import plan
from testbed.fabric.objects import Hop, Rule
from testbed.fabric.observe import SECTIONS, compare
from testbed.fabric.plan import NodePlan, Route
from testbed.topology import clos
from testbed.topology.labspec import LabSpec


@pytest.fixture
def desired() -> NodePlan:
    spec = LabSpec(name="lab", planes=1, t0_groups=2, hosts_per_t0=1, t1s_per_plane=1)
    node = plan.build(clos.build(spec)).nodes["h0"]
    return replace(node, hops=(Hop("fd6d:7263::2/128", "eth0", "fe80::65"),), rules=(Rule(1, "blackhole"),))


def test_a_node_as_planned_has_no_differences_whatever_the_order(desired: NodePlan) -> None:
    turned = replace(desired, **{section: tuple(reversed(getattr(desired, section))) for section in SECTIONS})
    assert compare(desired, turned) == []


@pytest.mark.parametrize("section", SECTIONS)
def test_what_is_missing_is_named(desired: NodePlan, section: str) -> None:
    items = getattr(desired, section)
    assert items
    found = compare(desired, replace(desired, **{section: items[1:]}))
    assert [(item.section, item.reason) for item in found] == [(section, "missing")]


@pytest.mark.parametrize("section", SECTIONS)
def test_what_nobody_planned_is_named(desired: NodePlan, section: str) -> None:
    items = getattr(desired, section)
    found = compare(replace(desired, **{section: items[1:]}), desired)
    assert [(item.section, item.reason) for item in found] == [(section, "unexpected")]


def test_a_changed_setting_is_told_with_both_values(desired: NodePlan) -> None:
    changed = tuple(replace(item, mtu=1500) if item.device == "eth0" else item for item in desired.interfaces)
    found = compare(desired, replace(desired, interfaces=changed))
    assert [str(item) for item in found] == ["h0: interfaces: eth0: mtu is 1500, planned 4400"]


def test_a_route_to_the_wrong_place_is_a_change_and_not_a_pair(desired: NodePlan) -> None:
    first: Route = desired.routes[0]
    elsewhere = (replace(first, via="fe80::ff"), *desired.routes[1:])
    found = compare(desired, replace(desired, routes=elsewhere))
    assert len(found) == 1
    assert found[0].reason == f"via is fe80::ff, planned {first.via}"


def test_a_sysctl_that_is_otherwise_is_named(desired: NodePlan) -> None:
    key = "net.ipv6.conf.all.accept_dad"
    found = compare(desired, replace(desired, sysctls={**desired.sysctls, key: "1"}))
    assert [str(item) for item in found] == [f"h0: sysctls: {key}: is 1, planned 0"]
