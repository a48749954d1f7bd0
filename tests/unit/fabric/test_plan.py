"""The plan of a fabric: wired as the Clos is, and forwarding, hop by hop by the plan's own routes, as EVs say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.wire import address
from testbed.fabric import plan
from testbed.topology import clos
from testbed.topology.clos import Clos
from testbed.topology.labspec import LabSpec

shapes = st.builds(
    lambda planes, groups, hosts, t1s: clos.build(
        LabSpec(name="lab", planes=planes, t0_groups=groups, hosts_per_t0=hosts, t1s_per_plane=t1s)
    ),
    st.integers(1, 8),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
)


def walk(fabric: Clos, desired: plan.FabricPlan, src: int, usids: tuple[int, ...]) -> list[str]:
    """The nodes that a packet crosses which leaves `src` for these uSIDs, going only by planned objects."""
    by_mac = {item.mac: node.node for node in desired.nodes.values() for item in node.interfaces if item.kind == "veth"}
    at = clos.host_name(src)
    crossed = [at]
    remaining = list(usids)
    while True:
        node = desired.nodes[at]
        prefix = plan.usid_prefix(remaining[0])
        sid = next((item for item in node.sids if item.dst == prefix), None)
        if sid is not None and sid.action == "End.DT6":
            assert remaining[1:] == []
            return crossed
        if sid is not None:
            remaining.pop(0)
            prefix = plan.usid_prefix(remaining[0])
        route = next(item for item in node.routes if item.dst == prefix)
        neighbour = next(item for item in node.neighbours if (item.device, item.address) == (route.device, route.via))
        at = by_mac[neighbour.mac]
        crossed.append(at)


@given(shapes, st.data())
@settings(max_examples=60, deadline=None)
def test_every_path_goes_where_the_clos_says(fabric: Clos, data: st.DataObject) -> None:
    hosts = st.integers(0, fabric.spec.hosts - 1)
    src, dst = data.draw(hosts), data.draw(hosts)
    plane = data.draw(st.integers(0, fabric.spec.planes - 1))
    t1 = data.draw(st.integers(0, fabric.spec.t1s_per_plane - 1))
    usids = fabric.path_usids(src, dst, plane, t1)
    assert walk(fabric, plan.build(fabric), src, usids) == fabric.path_nodes(src, dst, plane, t1)


@given(shapes)
@settings(max_examples=30, deadline=None)
def test_interface_numbers_and_macs_are_unique_in_the_lab(fabric: Clos) -> None:
    interfaces = [
        item for node in plan.build(fabric).nodes.values() for item in node.interfaces if item.kind != "loopback"
    ]
    assert len({item.ifindex for item in interfaces}) == len(interfaces)
    assert len({item.mac for item in interfaces}) == len(interfaces)


@given(shapes)
@settings(max_examples=30, deadline=None)
def test_both_ends_of_a_link_name_each_other(fabric: Clos) -> None:
    by_ifindex = {item.ifindex: item for node in plan.build(fabric).nodes.values() for item in node.interfaces}
    for link in fabric.links.values():
        assert by_ifindex[link.a.ifindex].peer_ifindex == link.b.ifindex
        assert by_ifindex[link.b.ifindex].peer_ifindex == link.a.ifindex


@given(shapes, st.data())
@settings(max_examples=30, deadline=None)
def test_ordinary_tools_take_the_path_that_is_announced(fabric: Clos, data: st.DataObject) -> None:
    src, dst = data.draw(st.permutations(range(fabric.spec.hosts)))[:2] if fabric.spec.hosts > 1 else (0, 0)
    if src == dst:
        return
    plane, t1 = plan.kernel_path_ev(fabric, src, dst)
    assert plan.kernel_path_ev(fabric, dst, src) == (plane, t1)
    node = plan.build(fabric).nodes[clos.host_name(src)]
    wanted = f"{plan.text(address.host_address(dst))}/128"
    route = next(item for item in node.routes if item.dst == wanted)
    usids = fabric.path_usids(src, dst, plane, t1)
    assert route.segment == plan.text(address.sid_address(address.DEFAULT_BLOCK, *usids))


@pytest.fixture
def small() -> Clos:
    return clos.build(LabSpec(name="lab", planes=2, t0_groups=2, hosts_per_t0=2, t1s_per_plane=2))


def test_switches_send_nothing_back_for_what_they_cannot_forward(small: Clos) -> None:
    for node in plan.build(small).nodes.values():
        blackholes = [item for item in node.routes if item.kind == "blackhole"]
        assert [item.dst for item in blackholes] == ([] if small.nodes[node.node].kind == "host" else ["::/0"])


def test_only_host_ports_filter_the_agents_packets(small: Clos) -> None:
    for node in plan.build(small).nodes.values():
        hooks = {item.hook for item in node.filters}
        assert hooks == ({"ingress", "egress"} if small.nodes[node.node].kind == "host" else {"egress"})
        sharing = {item.device for item in node.qdiscs if (item.ingress_block, item.egress_block) == (1, 2)}
        assert sharing == {port.name for port, _ in small.ports(node.node)}


def test_a_port_has_its_links_rate_and_the_labs_queue() -> None:
    rates = {"host": "10 Mb/s", "fabric": "40 Mb/s"}
    stands_for = {"host": "100 Gb/s", "fabric": "400 Gb/s"}
    shape = {"name": "lab", "planes": 1, "t0_groups": 2, "hosts_per_t0": 1, "t1s_per_plane": 1}
    fabric = clos.build(LabSpec(**shape, rates=rates, stands_for=stands_for, queue={"size": "100 KB"}))  # type: ignore[arg-type]
    node = plan.build(fabric).nodes["p0t0-0"]
    ceilings = {(item.device, item.ceil_bps) for item in node.classes}
    assert ceilings == {("h0", 10_000_000), ("p0t1-0", 40_000_000)}
    assert {(item.device, item.limit_bytes) for item in node.ports or ()} == {("h0", 102_400), ("p0t1-0", 102_400)}
    assert {(item.device, item.rate_bps) for item in node.ports or ()} == ceilings


def test_switches_mark_towards_switches_and_trim_everywhere_and_nics_do_neither(small: Clos) -> None:
    nodes = plan.build(small).nodes
    does = {
        name: {(item.device, item.ecn, item.trimming, item.last_hop) for item in nodes[name].ports or ()}
        for name in ("h0", "p0t0-0", "p0t1-0")
    }
    assert does["h0"] == {("eth0", False, False, False), ("eth1", False, False, False)}
    assert does["p0t0-0"] == {
        ("h0", False, True, True),
        ("h1", False, True, True),
        ("p0t1-0", True, True, False),
        ("p0t1-1", True, True, False),
    }
    assert does["p0t1-0"] == {("p0t0-0", True, True, False), ("p0t0-1", True, True, False)}


def test_a_delay_is_netem_on_both_leaves_and_no_part_of_the_queue() -> None:
    shape = {"name": "lab", "planes": 1, "t0_groups": 2, "hosts_per_t0": 1, "t1s_per_plane": 1}
    fabric = clos.build(LabSpec(**shape, delay={"fabric": "1 ms", "jitter": "100 us"}))  # type: ignore[arg-type]
    node = plan.build(fabric).nodes["p0t0-0"]
    leaves = {
        (item.device, item.handle): item for item in node.qdiscs if item.handle in (plan.DATA_LEAF, plan.CONTROL_LEAF)
    }
    assert {key: item.kind for key, item in leaves.items() if key[0] == "h0"} == {
        ("h0", plan.CONTROL_LEAF): "bfifo",
        ("h0", plan.DATA_LEAF): "bfifo",
    }
    for handle in (plan.CONTROL_LEAF, plan.DATA_LEAF):
        leaf = leaves["p0t1-0", handle]
        assert (leaf.kind, leaf.delay_ns) == ("netem", 1_000_000)
        assert abs(leaf.jitter_ns - 100_000) < plan.TICK_NS
    assert {item.device: item.virtual_queue for item in node.ports or ()} == {"h0": False, "p0t1-0": True}


def test_control_comes_before_data_and_both_share_the_line(small: Clos) -> None:
    classes = {item.classid: item for item in plan.build(small).nodes["p0t0-0"].classes if item.device == "h0"}
    control, data, line = classes[plan.CONTROL_CLASS], classes[plan.DATA_CLASS], classes[plan.LINE_CLASS]
    assert control.prio < data.prio
    assert control.parent == data.parent == line.classid
    assert data.rate_bps * 10 < line.rate_bps  # what it is guaranteed even against control
