"""Kernel objects as data: what a plan wants, what the kernel is asked for, and what it tells back, in one form.

All values are in the form in which the kernel tells them back, so that plan and observation are compared field by field
(`observe.compare`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from testbed.topology.port_settings import PortSettings


@dataclass(frozen=True, slots=True, order=True)
class Interface:
    """A device, always up. `peer_ifindex` is the other end of a veth, None for the loopback."""

    device: str
    ifindex: int
    kind: Literal["veth", "loopback"]
    mac: str
    mtu: int
    peer_ifindex: int | None
    up: bool = True


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """An address with its prefix length, `fd6d:7263::1/128`."""

    device: str
    address: str


@dataclass(frozen=True, slots=True, order=True)
class Neighbour:
    """A permanent entry."""

    device: str
    address: str
    mac: str


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """A static route: to a next hop, to nowhere (`blackhole`), or into a reduced encapsulation towards `segment`."""

    dst: str
    device: str
    via: str = ""
    kind: Literal["unicast", "blackhole"] = "unicast"
    segment: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Hop:
    """A next hop towards hosts without an outer header; flows to `dst` are hashed over all that it has."""

    dst: str
    device: str
    via: str


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """A rule before the routing tables: of what the node itself sends (`own`) or of all; to the main table, or away."""

    priority: int
    action: Literal["main", "blackhole"]
    own: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Sid:
    """A local SID: `End` with the NEXT-CSID flavour and packet counters (uN), or `End.DT6` into `table`."""

    dst: str
    device: str
    action: Literal["End", "End.DT6"]
    table: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Qdisc:
    """A queueing discipline; `limit_bytes` for bfifo, `default_class` for htb, delay and jitter for netem.

    The blocks of a clsact are the namespace's, by number: what hangs in one runs at that hook of all its ports.

    With a `size_table` (an empty one) it takes a packet's length when the packet comes. Without, it goes by the length
    from before clsact egress: a trimmed packet would hold the line as long as a whole one.
    """

    device: str
    kind: Literal["htb", "bfifo", "netem", "clsact"]
    handle: int
    parent: int
    limit_bytes: int = 0
    default_class: int = 0
    size_table: bool = False
    delay_ns: int = 0
    jitter_ns: int = 0
    ingress_block: int = 0
    egress_block: int = 0


@dataclass(frozen=True, slots=True, order=True)
class HtbClass:
    """A class of an HTB tree. A burst is the time it takes at the class's rate, and at its ceiling."""

    device: str
    classid: int
    parent: int
    prio: int
    rate_bps: int
    ceil_bps: int
    burst_ns: int
    ceil_burst_ns: int
    quantum_bytes: int


@dataclass(frozen=True, slots=True, order=True)
class Filter:
    """An eBPF program at a clsact hook of all ports of a node: in the block that they share for it."""

    hook: Literal["ingress", "egress"]
    program: str


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The desired state of one namespace."""

    node: str
    namespace: str
    sysctls: dict[str, str]
    interfaces: tuple[Interface, ...]
    addresses: tuple[Address, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    routes: tuple[Route, ...] = ()
    hops: tuple[Hop, ...] = ()
    rules: tuple[Rule, ...] = ()
    sids: tuple[Sid, ...] = ()
    qdiscs: tuple[Qdisc, ...] = ()
    classes: tuple[HtbClass, ...] = ()
    filters: tuple[Filter, ...] = ()
    ports: tuple[PortSettings, ...] | None = None  # None: not read


@dataclass(frozen=True)
class FabricPlan:
    """The desired state of a lab, by node."""

    lab: str
    nodes: dict[str, NodePlan] = field(repr=False)

    def objects(self) -> int:
        """How many kernel objects that is."""
        return sum(
            len(part)
            for node in self.nodes.values()
            for part in (
                node.interfaces, node.addresses, node.neighbours, node.routes, node.hops, node.sids, node.qdiscs,
                node.classes, node.filters, node.ports or (),
            )
        )  # fmt: skip

    @property
    def last_ifindex(self) -> int:
        """The highest of all devices: the port map has an entry for each up to it."""
        return max(item.ifindex for node in self.nodes.values() for item in node.interfaces)
