"""The part of a node's plan that makes it forward."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.wire import address
from testbed.fabric.addressing import text
from testbed.fabric.objects import Address, Hop, Route, Sid
from testbed.topology.clos import SID_DEVICE, Node

# What cannot be forwarded vanishes without an ICMPv6 error, as it would in a switch.
NOWHERE = Route("::/0", "", kind="blackhole")


@dataclass(frozen=True, slots=True)
class Forwarding:
    """Addresses, routes and settings of one node; see `objects`."""

    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    hops: tuple[Hop, ...] = ()
    sids: tuple[Sid, ...] = ()
    sysctls: dict[str, str] = field(default_factory=dict)


def own_address(host: Node) -> Address:
    """A host's address: on the SID device, so that it is there whichever ports are up."""
    return Address(SID_DEVICE, f"{text(address.host_address(host.index))}/128")
