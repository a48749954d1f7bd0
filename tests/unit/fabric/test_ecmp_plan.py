"""The plan of a fabric that hashes: every choice of next hops that a flow can meet leads to its host over one T1."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.fabric import plan
from testbed.fabric.addressing import HOSTS, host, is_of_hosts
from testbed.fabric.objects import NodePlan
from testbed.topology import clos
from testbed.topology.clos import Clos
from testbed.topology.labspec import LabSpec

shapes = st.builds(
    lambda planes, groups, hosts, t1s: clos.build(
        LabSpec(name="lab", planes=planes, t0_groups=groups, hosts_per_t0=hosts, t1s_per_plane=t1s, routing="ecmp")
    ),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
)


def next_nodes(desired: plan.FabricPlan, node: NodePlan, dst: int) -> list[str]:
    """Where a packet to a host can go from a node: by the longest prefix that it has."""
    by_mac = {item.mac: one.node for one in desired.nodes.values() for item in one.interfaces if item.kind == "veth"}
    mac_of = {(item.device, item.address): item.mac for item in node.neighbours}
    exact = [hop for hop in node.hops if hop.dst == host(dst)]
    chosen = exact or [hop for hop in node.hops if hop.dst == HOSTS]
    return [by_mac[mac_of[hop.device, hop.via]] for hop in chosen]


def walks(desired: plan.FabricPlan, at: str, dst: int) -> list[list[str]]:
    """All ways from a node to a host."""
    if at == clos.host_name(dst):
        return [[at]]
    return [[at, *rest] for far in next_nodes(desired, desired.nodes[at], dst) for rest in walks(desired, far, dst)]


@given(shapes, st.data())
@settings(max_examples=60, deadline=None)
def test_the_ways_are_those_of_the_clos(fabric: Clos, data: st.DataObject) -> None:
    hosts = st.integers(0, fabric.spec.hosts - 1)
    src, dst = data.draw(hosts), data.draw(hosts)
    if src == dst:
        return
    ways = walks(plan.build(fabric), clos.host_name(src), dst)
    wanted = {
        tuple(fabric.path_nodes(src, dst, plane, t1))
        for plane in range(fabric.spec.planes)
        for t1 in range(fabric.spec.t1s_per_plane)
    }
    assert {tuple(way) for way in ways} == wanted


@given(shapes)
@settings(max_examples=20, deadline=None)
def test_it_has_no_sids_and_hashes_over_ports(fabric: Clos) -> None:
    for node in plan.build(fabric).nodes.values():
        assert node.sids == ()
        assert node.sysctls["net.ipv6.fib_multipath_hash_policy"] == "1"
        assert all(is_of_hosts(hop.dst) for hop in node.hops)


def test_which_prefixes_are_of_hosts() -> None:
    assert is_of_hosts(HOSTS)
    assert is_of_hosts(host(0))
    assert not is_of_hosts("::/0")
    assert not is_of_hosts("fd6d:7263::/64")
    assert not is_of_hosts("fcbb:bb00:800::/48")
