"""Forwarding by what BGP learns: FRR in every switch, as RFC 7938 builds a data centre's Clos.

Unnumbered eBGP over each T0-T1 link; every T0 has an AS of its own, the T1s of a plane share one, so that no path goes
down and up again; ECMP over all of them. A T0 announces its hosts while it has a route to them, which is static, as
in `ecmp`: host links are not watched by BGP. What BGP learns is FRR's and not part of the plan. Here: what a node
needs besides, and the configuration of its daemons, as text. They are run by `testbed.lab.frr`.
"""

from __future__ import annotations

from testbed.fabric.addressing import host, link_local
from testbed.fabric.objects import Address
from testbed.fabric.routing import ecmp
from testbed.fabric.routing.forwarding import Forwarding
from testbed.topology.clos import Clos, Node, Port

FIRST_PRIVATE_AS = 4_200_000_000  # RFC 6996
AS_PER_PLANE = 1 << 10  # the T1s' first, then one for each T0 (512 at most)
MOST_PATHS = 64  # what a flow is hashed over
CONNECT_RETRY_S = 1
ADVERTISEMENTS_S = 1
KEEPALIVES_PER_HOLD_TIME = 3
BFD_MULTIPLIER = 3
BFD_PROFILE = "links"
PEERS = "fabric"

_S, _MS = 1_000_000_000, 1_000_000


def of_node(clos: Clos, node: Node) -> Forwarding:
    """Like `ecmp`, without the next hops between switches, and with the addresses that their sessions need."""
    static = ecmp.of_node(clos, node)
    if node.kind == "host":
        return static
    uplinks = {port.name for port, _ in _sessions(clos, node)}
    return Forwarding(
        addresses=tuple(Address(port.name, f"{link_local(port)}/64") for port, _ in _sessions(clos, node)),
        routes=static.routes,
        hops=tuple(hop for hop in static.hops if hop.device not in uplinks),
        sysctls=static.sysctls,
    )


def _sessions(clos: Clos, switch: Node) -> list[tuple[Port, Node]]:
    """The ports with a BGP session, and the switches behind."""
    ports = [(port, clos.nodes[clos.peer(port, link).node]) for port, link in clos.ports(switch.name)]
    return [(port, far) for port, far in ports if far.kind != "host"]


def as_number(switch: Node) -> int:
    """One for each T0, one for all T1s of a plane."""
    assert switch.plane is not None
    own = 1 + switch.index if switch.kind == "t0" else 0
    return FIRST_PRIVATE_AS + switch.plane * AS_PER_PLANE + own


def router_id(switch: Node) -> str:
    """10.PLANE.x.y: a number like an IPv4 address, which no interface has."""
    assert switch.plane is not None
    number = switch.index + 1 + (0x8000 if switch.kind == "t1" else 0)
    return f"10.{switch.plane}.{number >> 8}.{number & 0xFF}"


def learned(clos: Clos, switch: Node) -> dict[str, int]:
    """What the switch has to have learned when BGP has converged: prefix -> number of next hops."""
    hosts = clos.hosts
    if switch.kind == "t1":
        return {host(one.index): 1 for one in hosts}
    behind = [one for one in hosts if clos.group_of(one.index) != switch.index]
    return {host(one.index): min(clos.spec.t1s_per_plane, MOST_PATHS) for one in behind}


def configuration(clos: Clos, switch: Node) -> dict[str, str]:
    """Daemon -> its configuration file."""
    found = {"zebra": _zebra(clos, switch), "bgpd": _bgpd(clos, switch)}
    if clos.spec.bgp.bfd:
        found["bfdd"] = _bfdd(clos, switch)
    return found


def _zebra(clos: Clos, switch: Node) -> str:
    # Unnumbered peers find each other by router advertisements. And next hops without groups of their own: one that has
    # gone with its link comes back to a group as FRR 8.4 sees it, but not to the kernel's.
    lines = [f"hostname {switch.name}", "no zebra nexthop kernel enable"]
    for port, _ in _sessions(clos, switch):
        lines += [f"interface {port.name}", f" ipv6 nd ra-interval {ADVERTISEMENTS_S}", " no ipv6 nd suppress-ra"]
    return "\n".join(lines) + "\n"


def _bgpd(clos: Clos, switch: Node) -> str:
    bgp = clos.spec.bgp
    hold_s = bgp.hold_time // _S
    own = [one for one in clos.hosts if switch.kind == "t0" and clos.group_of(one.index) == switch.index]
    lines = [
        f"hostname {switch.name}",
        f"router bgp {as_number(switch)}",
        f" bgp router-id {router_id(switch)}",
        " no bgp ebgp-requires-policy",
        " bgp network import-check",
        " no bgp default ipv4-unicast",
        f" timers bgp {hold_s // KEEPALIVES_PER_HOLD_TIME} {hold_s}",
        f" neighbor {PEERS} peer-group",
        f" neighbor {PEERS} remote-as external",
        f" neighbor {PEERS} advertisement-interval 0",
        f" neighbor {PEERS} timers connect {CONNECT_RETRY_S}",
        # T0s open the sessions, and nobody is in each other's way
        *([f" neighbor {PEERS} passive"] if switch.kind == "t1" else []),
        *([f" neighbor {PEERS} bfd", f" neighbor {PEERS} bfd profile {BFD_PROFILE}"] if bgp.bfd else []),
        *(f" neighbor {port.name} interface peer-group {PEERS}" for port, _ in _sessions(clos, switch)),
        " address-family ipv6 unicast",
        *(f"  network {host(one.index)}" for one in own),
        f"  neighbor {PEERS} activate",
        f"  maximum-paths {MOST_PATHS}",
        " exit-address-family",
    ]
    return "\n".join(lines) + "\n"


def _bfdd(clos: Clos, switch: Node) -> str:
    interval_ms = clos.spec.bgp.bfd_interval // _MS
    lines = [
        f"hostname {switch.name}",
        "bfd",
        f" profile {BFD_PROFILE}",
        f"  detect-multiplier {BFD_MULTIPLIER}",
        f"  receive-interval {interval_ms}",
        f"  transmit-interval {interval_ms}",
    ]
    return "\n".join(lines) + "\n"
