"""The Clos: every link where the paper's picture has it, names that the kernel takes, paths along real links."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from labs import lab, small_labs

from agents.wire import address
from testbed.topology.clos import Clos, host_name, t0_name, t1_name
from testbed.topology.labspec import MAX_NAME_LENGTH


@given(small_labs())
def test_each_host_is_on_every_plane_and_each_t0_on_every_t1_of_its_plane(fabric: Clos) -> None:
    spec = fabric.spec
    for node in fabric.nodes.values():
        far = {fabric.peer(port, link).node for port, link in fabric.ports(node.name)}
        hosts = {host.name for host in fabric.hosts if fabric.group_of(host.index) == node.index}
        if node.kind == "host":
            assert far == {t0_name(plane, fabric.group_of(node.index)) for plane in range(spec.planes)}
        elif node.kind == "t0" and node.plane is not None:
            assert far == hosts | {t1_name(node.plane, t1) for t1 in range(spec.t1s_per_plane)}
        elif node.plane is not None:
            assert far == {t0_name(node.plane, t0) for t0 in range(spec.t0_groups)}


@given(small_labs())
def test_names_are_unique_and_a_port_is_named_after_its_far_end(fabric: Clos) -> None:
    ports = [(port, link) for link in fabric.links.values() for port in link.ends()]
    assert len({(port.node, port.name) for port, _ in ports}) == len(ports)
    assert len({port.ifindex for port, _ in ports}) == len(ports)
    assert len({port.mac for port, _ in ports}) == len(ports)
    for port, link in ports:
        expected = f"eth{link.plane}" if port == link.a and link.tier == "nic-t0" else fabric.peer(port, link).node
        assert port.name == expected


@given(small_labs())
def test_the_near_end_of_a_link_is_the_lower_tier(fabric: Clos) -> None:
    tiers = ["host", "t0", "t1"]
    for name, link in fabric.links.items():
        near, far = fabric.nodes[link.a.node].kind, fabric.nodes[link.b.node].kind
        assert name == link.name == f"{link.a.node}:{link.b.node}"
        assert tiers.index(near) + 1 == tiers.index(far)


@given(small_labs())
def test_paths_run_along_links_of_their_plane(fabric: Clos) -> None:
    spec, last = fabric.spec, fabric.spec.hosts - 1
    for plane in range(spec.planes):
        for t1 in range(spec.t1s_per_plane):
            nodes, links = fabric.path_nodes(0, last, plane, t1), fabric.path_links(0, last, plane, t1)
            assert nodes[0] == "h0" and nodes[-1] == host_name(last)
            for (near, far), name in zip(pairwise(nodes), links, strict=True):
                assert {near, far} == {port.node for port in fabric.links[name].ends()}
                assert fabric.links[name].plane == plane


@given(small_labs())
def test_the_usids_of_a_path_are_those_of_its_switches_and_of_the_last_downlink(fabric: Clos) -> None:
    last = fabric.spec.hosts - 1
    for t1 in range(fabric.spec.t1s_per_plane):
        *switches, downlink = map(address.split_usid, fabric.path_usids(0, last, 0, t1))
        namers = {address.Kind.T0: t0_name, address.Kind.T1: t1_name}
        named = [namers[kind](plane, index) for plane, kind, index in switches]
        assert named == fabric.path_nodes(0, last, 0, t1)[1:-1]
        assert downlink == (0, address.Kind.DOWNLINK, fabric.slot_of(last))


def test_the_longest_names_that_a_lab_file_can_ask_for_fit_an_interface() -> None:
    longest = [
        host_name(address.MAX_HOSTS - 1),
        t0_name(address.MAX_PLANES - 1, address.MAX_T0_PER_PLANE - 1),
        t1_name(address.MAX_PLANES - 1, address.MAX_T1_PER_PLANE - 1),
    ]
    assert max(map(len, longest)) <= MAX_NAME_LENGTH
    assert len(f"{'x' * MAX_NAME_LENGTH}.{max(longest, key=len)}") <= 64


def test_links_have_the_rate_of_their_tier() -> None:
    rates = {"host": "10 Mb/s", "fabric": "40 Mb/s"}
    fabric = lab(rates=rates, stands_for={"host": "100 Gb/s", "fabric": "400 Gb/s"})
    assert {(link.tier, link.rate_bps) for link in fabric.links.values()} == {
        ("nic-t0", 10_000_000),
        ("t0-t1", 40_000_000),
    }
