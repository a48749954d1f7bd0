"""Forwarding by a hash of each flow: static multipath routes, as ECMP without a routing protocol has them.

A T0 hashes addresses and ports (the kernel's L4 policy) over its links to the T1s; a T1 has one link to each T0. Whose
link has no carrier is left out of the hash at once (`ignore_routes_with_linkdown`). What lies behind is not seen: a T1
that has lost its link to the far T0 still gets its share, and drops it; so does a link that loses silently.
"""

from __future__ import annotations

from testbed.fabric.addressing import HOSTS, host, link_local
from testbed.fabric.objects import Hop
from testbed.fabric.routing.forwarding import NOWHERE, Forwarding, own_address
from testbed.topology.clos import Clos, Node

HASHING_SYSCTLS = {
    "net.ipv6.fib_multipath_hash_policy": "1",  # addresses, protocol and ports; 0 would be without ports
    "net.ipv6.conf.all.ignore_routes_with_linkdown": "1",
    "net.ipv6.conf.default.ignore_routes_with_linkdown": "1",
}


def of_node(clos: Clos, node: Node) -> Forwarding:
    """The next hops of a node: ordinary tools on a host go over all its ports, the agents choose theirs."""
    hops = []
    for port, link in clos.ports(node.name):
        far = clos.peer(port, link)
        hops += [Hop(dst, port.name, link_local(far)) for dst in _behind(clos, node, clos.nodes[far.node])]
    if node.kind == "host":
        return Forwarding((own_address(node),), hops=tuple(hops), sysctls=HASHING_SYSCTLS)
    return Forwarding(routes=(NOWHERE,), hops=tuple(hops), sysctls=HASHING_SYSCTLS)


def _behind(clos: Clos, node: Node, far: Node) -> list[str]:
    """The prefixes that a node reaches over its link to `far`."""
    if far.kind == "host":
        return [host(far.index)]
    if node.kind == "t1":
        return [host(one.index) for one in clos.hosts if clos.group_of(one.index) == far.index]
    return [HOSTS]  # upwards: whoever is not in the own rack
