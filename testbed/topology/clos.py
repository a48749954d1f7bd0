"""The multi-plane two-tier Clos that a lab file describes: nodes, links, ports and their names. Pure data.

Each plane is a Clos of its own; a host has one NIC port per plane (paper, section 2). Names: hosts `h0`, switches
`p0t0-1`, `p0t1-3`; host ports `eth0..` = plane 0.., switch ports named after the far end; a link is `near:far`, near =
lower tier: `h3:p2t0-0`, `p0t0-1:p0t1-3`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal

from agents.wire import address
from testbed.topology.labspec import LabSpec

NodeKind = Literal["host", "t0", "t1"]
Tier = Literal["nic-t0", "t0-t1"]

FIRST_IFINDEX = 100  # lab-wide unique, so that one eBPF map keyed by ifindex serves every port of every namespace
SID_DEVICE = "sid0"  # carries the seg6local routes of a node, so that they do not vanish with a fabric link


@dataclass(frozen=True, slots=True)
class Node:
    """A host (plane None), or a T0 or T1 switch; `index` counts within the kind and plane."""

    name: str
    kind: NodeKind
    plane: int | None
    index: int


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a link: interface `name` in the namespace of `node`."""

    node: str
    name: str
    ifindex: int

    @property
    def mac(self) -> str:
        """Locally administered MAC address, from the ifindex: unique in the lab."""
        octets = self.ifindex.to_bytes(4, "big")
        return "02:6d:" + ":".join(f"{octet:02x}" for octet in octets)


@dataclass(frozen=True, slots=True)
class Link:
    """A cable; `a` is the near end, in the lower tier."""

    name: str
    tier: Tier
    plane: int
    a: Port
    b: Port
    rate_bps: int

    def ends(self) -> tuple[Port, Port]:
        """(near, far)."""
        return self.a, self.b


@dataclass(frozen=True)
class Clos:
    """All nodes and links of a lab, by name, in a fixed order. Made by `build`."""

    spec: LabSpec
    nodes: dict[str, Node] = field(repr=False)
    links: dict[str, Link] = field(repr=False)

    @cached_property
    def hosts(self) -> list[Node]:
        """The hosts in order of their number."""
        return [node for node in self.nodes.values() if node.kind == "host"]

    @cached_property
    def switches(self) -> list[Node]:
        """T0s and T1s of all planes."""
        return [node for node in self.nodes.values() if node.kind != "host"]

    @cached_property
    def _ports(self) -> dict[str, list[tuple[Port, Link]]]:
        ports: dict[str, list[tuple[Port, Link]]] = {name: [] for name in self.nodes}
        for link in self.links.values():
            for port in link.ends():
                ports[port.node].append((port, link))
        return ports

    def ports(self, node: str) -> list[tuple[Port, Link]]:
        """The ports of a node with their links."""
        return self._ports[node]

    def peer(self, port: Port, link: Link) -> Port:
        """The other end of a link."""
        return link.b if port == link.a else link.a

    def group_of(self, host: int) -> int:
        """The T0 group (rack) of a host."""
        return host // self.spec.hosts_per_t0

    def slot_of(self, host: int) -> int:
        """A host's number within its T0 = its downlink index."""
        return host % self.spec.hosts_per_t0

    def path_usids(self, src: int, dst: int, plane: int, t1: int) -> tuple[int, ...]:
        """The uSIDs from host to host; the T1 is left out inside one rack."""
        src_t0, dst_t0 = self.group_of(src), self.group_of(dst)
        return address.path_usids(plane, src_t0, None if src_t0 == dst_t0 else t1, dst_t0, self.slot_of(dst))

    def path_nodes(self, src: int, dst: int, plane: int, t1: int) -> list[str]:
        """The names of the nodes on that path, both hosts included."""
        src_t0, dst_t0 = self.group_of(src), self.group_of(dst)
        switches = [t0_name(plane, src_t0)]
        if src_t0 != dst_t0:
            switches += [t1_name(plane, t1), t0_name(plane, dst_t0)]
        return [host_name(src), *switches, host_name(dst)]

    def path_links(self, src: int, dst: int, plane: int, t1: int) -> list[str]:
        """The names of the links on that path, in order."""
        nodes = self.path_nodes(src, dst, plane, t1)
        names = [link_name(a, b) for a, b in pairwise(nodes)]
        return [name if name in self.links else ":".join(reversed(name.split(":"))) for name in names]


def host_name(host: int) -> str:
    """h0, h1, ..."""
    return f"h{host}"


def t0_name(plane: int, index: int) -> str:
    """p0t0-1: plane 0, T0 number 1."""
    return f"p{plane}t0-{index}"


def t1_name(plane: int, index: int) -> str:
    """p0t1-3: plane 0, T1 number 3."""
    return f"p{plane}t1-{index}"


def link_name(near: str, far: str) -> str:
    """near:far."""
    return f"{near}:{far}"


def _nodes(spec: LabSpec) -> Iterator[Node]:
    for host in range(spec.hosts):
        yield Node(host_name(host), "host", None, host)
    for plane in range(spec.planes):
        for index in range(spec.t0_groups):
            yield Node(t0_name(plane, index), "t0", plane, index)
        for index in range(spec.t1s_per_plane):
            yield Node(t1_name(plane, index), "t1", plane, index)


def _ends(spec: LabSpec) -> Iterator[tuple[Tier, int, str, str, str, str]]:
    """(tier, plane, near node, near port, far node, far port) of each link."""
    for plane in range(spec.planes):
        for host in range(spec.hosts):
            near, far = host_name(host), t0_name(plane, host // spec.hosts_per_t0)
            yield "nic-t0", plane, near, f"eth{plane}", far, near
        for t0 in range(spec.t0_groups):
            for t1 in range(spec.t1s_per_plane):
                near, far = t0_name(plane, t0), t1_name(plane, t1)
                yield "t0-t1", plane, near, far, far, near


def build(spec: LabSpec) -> Clos:
    """The Clos of a lab file: every T0 linked to its hosts and to every T1 of its plane."""
    links: dict[str, Link] = {}
    ifindex = FIRST_IFINDEX
    for tier, plane, near, near_port, far, far_port in _ends(spec):
        rate_bps = spec.rates.host if tier == "nic-t0" else spec.rates.fabric
        a, b = Port(near, near_port, ifindex), Port(far, far_port, ifindex + 1)
        ifindex += 2
        name = link_name(near, far)
        links[name] = Link(name, tier, plane, a, b, rate_bps)
    return Clos(spec, {node.name: node for node in _nodes(spec)}, links)
