"""How the nodes of a lab forward (`routing` of the lab file): a module for each way, all with the same `of_node`."""

from __future__ import annotations

from collections.abc import Callable

from testbed.fabric.routing import bgp, ecmp, srv6
from testbed.fabric.routing.forwarding import Forwarding
from testbed.topology.clos import Clos, Node

_WAYS: dict[str, Callable[[Clos, Node], Forwarding]] = {
    "srv6": srv6.of_node,
    "ecmp": ecmp.of_node,
    "bgp": bgp.of_node,
}


def of_node(clos: Clos, node: Node) -> Forwarding:
    """What a node needs to forward as its lab does."""
    return _WAYS[clos.spec.routing](clos, node)
