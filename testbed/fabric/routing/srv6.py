"""Forwarding as the sender says: uN (RFC 9800, the T0s and T1s shift NEXT-CSID containers) over static /48 routes.

As the MRC paper has it (section 3). Ordinary tools between hosts go by a fixed path each, encapsulated by the host.
"""

from __future__ import annotations

from agents.wire import address
from testbed.fabric.addressing import host, link_local, text, usid_prefix
from testbed.fabric.objects import Route, Sid
from testbed.fabric.routing.forwarding import NOWHERE, Forwarding, own_address
from testbed.topology.clos import SID_DEVICE, Clos, Node

LOCAL_TABLE = 255


def of_node(clos: Clos, node: Node) -> Forwarding:
    """The routes and SIDs of a node."""
    return _of_host(clos, node) if node.kind == "host" else _of_switch(clos, node)


def kernel_path_ev(clos: Clos, src: int, dst: int) -> tuple[int, int]:
    """(plane, T1) of the path that ordinary tools (ping, iperf3) take from host to host: fixed, the same both ways."""
    return (src + dst) % clos.spec.planes, (src + dst) % clos.spec.t1s_per_plane


def _of_host(clos: Clos, node: Node) -> Forwarding:
    spec, index = clos.spec, node.index
    group, slot = clos.group_of(index), clos.slot_of(index)
    routes, sids = [], []
    for port, link in clos.ports(node.name):
        own_t0 = address.usid(link.plane, address.Kind.T0, group)
        routes.append(Route(usid_prefix(own_t0), port.name, link_local(clos.peer(port, link))))
        downlink = address.usid(link.plane, address.Kind.DOWNLINK, slot)
        sids.append(Sid(usid_prefix(downlink), SID_DEVICE, "End.DT6", LOCAL_TABLE))
    for other in range(spec.hosts):
        if other == index:
            continue
        plane, t1 = kernel_path_ev(clos, index, other)
        segment = text(address.sid_address(address.DEFAULT_BLOCK, *clos.path_usids(index, other, plane, t1)))
        # On the SID device, so that the route outlives its port: only the /48 to the T0 goes with that one.
        routes.append(Route(host(other), SID_DEVICE, segment=segment))
    return Forwarding((own_address(node),), tuple(routes), sids=tuple(sids))


def _of_switch(clos: Clos, switch: Node) -> Forwarding:
    assert switch.plane is not None
    kind = address.Kind.T0 if switch.kind == "t0" else address.Kind.T1
    own = address.usid(switch.plane, kind, switch.index)
    routes = [NOWHERE]
    for port, link in clos.ports(switch.name):
        far = clos.peer(port, link)
        node = clos.nodes[far.node]
        if node.kind == "host":
            usid = address.usid(switch.plane, address.Kind.DOWNLINK, clos.slot_of(node.index))
        else:
            far_kind = address.Kind.T0 if node.kind == "t0" else address.Kind.T1
            usid = address.usid(switch.plane, far_kind, node.index)
        routes.append(Route(usid_prefix(usid), port.name, link_local(far)))
    return Forwarding(routes=tuple(routes), sids=(Sid(usid_prefix(own), SID_DEVICE, "End"),))
