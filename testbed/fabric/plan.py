"""What the kernel has to hold for a lab, as data: computed from the Clos, shown by a dry run, applied, read back.

One `NodePlan` per namespace. Forwarding follows RFC 9800 (uN: the T0s and T1s shift NEXT-CSID containers) over static
/48 routes, as the MRC paper has it (section 3). Addresses of next hops are link-local and computed from the ifindex of
the far port; neighbour entries are permanent, so that nothing has to be discovered. All values are in the form in
which the kernel tells them back, so that plan and observation are compared field by field (`observe.compare`).
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field, replace
from typing import Literal

from agents.wire import address
from testbed.topology.clos import SID_DEVICE, Clos, Link, Node, Port
from testbed.topology.errors import InputError
from testbed.topology.labspec import MAX_QUEUE_BYTES
from testbed.topology.port_settings import PortSettings, planned

BLOCK_BITS = 32
USID_PREFIX_BITS = address.USID_BITS + BLOCK_BITS

# HTB: one parent holds the line rate, control has strict priority over data below it. The program at a port's egress
# (port.bpf.c) chooses the leaf by the DSCP.
ROOT_HANDLE = 0x10000
LINE_CLASS = 0x100FF
CONTROL_CLASS = 0x10001
DATA_CLASS = 0x10010
CONTROL_LEAF = 0x20000
DATA_LEAF = 0x30000
DATA_SHARE_OF_RATE = 100  # data is guaranteed 1/100 of the line, the rest it borrows: so control comes first
NO_LIMIT_BYTES = 2 * MAX_QUEUE_BYTES - 1  # of the leaves: the program at egress drops before, and counts
ETHERNET_HEADER_BYTES = 14
BURST_FRAMES = 2  # a wake-up that comes up to one frame late loses no rate
BURST_NS = 500_000  # the same for fast lines, where two frames are shorter than a late wake-up
TICK_NS = 64  # in which the packet scheduler counts time
LOCAL_TABLE = 255

INGRESS_PROGRAM = "mrclab_ingress"
PORT_PROGRAM = "mrclab_port"
SID_DEVICE_END = f"{SID_DEVICE}-end"

# Before the links come: no duplicate address detection, no generated addresses, no router solicitations, and no
# "all routers" group (that is what `default` forwarding 0 does), so that ports carry nothing but the lab's packets.
# Order matters: writing all/forwarding sets default/forwarding too.
_QUIET = {
    "net.ipv6.conf.{}.disable_ipv6": "0",
    "net.ipv6.conf.{}.accept_dad": "0",
    "net.ipv6.conf.{}.addr_gen_mode": "1",
    "net.ipv6.conf.{}.accept_ra": "0",
    "net.ipv6.conf.{}.router_solicitations": "0",
}
HOST_SYSCTLS = {key.format(scope): value for scope in ("all", "default") for key, value in _QUIET.items()}
SWITCH_SYSCTLS = HOST_SYSCTLS | {"net.ipv6.conf.all.forwarding": "1", "net.ipv6.conf.default.forwarding": "0"}


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


LOOPBACK = Interface("lo", 1, "loopback", "00:00:00:00:00:00", 65536, None)  # every namespace is born with it


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
class Sid:
    """A local SID: `End` with the NEXT-CSID flavour and packet counters (uN), or `End.DT6` into `table`."""

    dst: str
    device: str
    action: Literal["End", "End.DT6"]
    table: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Qdisc:
    """A queueing discipline; `limit_bytes` for bfifo, `default_class` for htb, delay and jitter for netem.

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
    """An eBPF program at the clsact hook of a device."""

    device: str
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
                node.interfaces, node.addresses, node.neighbours, node.routes, node.sids, node.qdiscs, node.classes,
                node.filters, node.ports or (),
            )
        )  # fmt: skip

    @property
    def last_ifindex(self) -> int:
        """The highest of all devices: the port map has an entry for each up to it."""
        return max(item.ifindex for node in self.nodes.values() for item in node.interfaces)


def text(packed: bytes) -> str:
    """A 16-byte address as the kernel and people write it."""
    return socket.inet_ntop(socket.AF_INET6, packed)


def namespace_name(lab: str, node: str) -> str:
    """`<lab>.<node>`."""
    return f"{lab}.{node}"


def link_local(port: Port) -> str:
    """The address by which the far end of a link names `port` as its next hop; it is never assigned."""
    return text(bytes.fromhex("fe80") + port.ifindex.to_bytes(14, "big"))


def usid_prefix(usid: int) -> str:
    """The /48 that one uSID owns."""
    return f"{text(address.sid_address(address.DEFAULT_BLOCK, usid))}/{USID_PREFIX_BITS}"


def kernel_path_ev(clos: Clos, src: int, dst: int) -> tuple[int, int]:
    """(plane, T1) of the path that ordinary tools (ping, iperf3) take from host to host: fixed, the same both ways."""
    return (src + dst) % clos.spec.planes, (src + dst) % clos.spec.t1s_per_plane


def _delay_ns(clos: Clos, link: Link) -> int:
    delay = clos.spec.delay
    return (delay.host if link.tier == "nic-t0" else delay.fabric) // TICK_NS * TICK_NS


def _leaf(clos: Clos, device: str, link: Link, handle: int, parent: int) -> Qdisc:
    if delay_ns := _delay_ns(clos, link):
        jitter_ns = clos.spec.delay.jitter // TICK_NS * TICK_NS
        return Qdisc(device, "netem", handle, parent, delay_ns=delay_ns, jitter_ns=jitter_ns)
    return Qdisc(device, "bfifo", handle, parent, limit_bytes=NO_LIMIT_BYTES)


def _qdiscs(clos: Clos, device: str, link: Link) -> list[Qdisc]:
    return [
        Qdisc(device, "htb", ROOT_HANDLE, 0xFFFFFFFF, default_class=DATA_CLASS & 0xFFFF, size_table=True),
        Qdisc(device, "clsact", 0xFFFF0000, 0xFFFFFFF1),
        _leaf(clos, device, link, CONTROL_LEAF, CONTROL_CLASS),
        _leaf(clos, device, link, DATA_LEAF, DATA_CLASS),
    ]


def burst_ns(rate_bps: int, line_bps: int, mtu: int) -> int:
    """How long a burst takes at `rate_bps`; its bytes are those of a line of `line_bps`."""
    burst_bytes = max(BURST_FRAMES * (mtu + ETHERNET_HEADER_BYTES), line_bps * BURST_NS // 8_000_000_000)
    return burst_bytes * 8_000_000_000 // rate_bps // TICK_NS * TICK_NS


def htb_classes(device: str, rate_bps: int, mtu: int) -> list[HtbClass]:
    """The classes of a port of that rate: the line, and control and data below it."""

    def htb_class(classid: int, parent: int, prio: int, class_bps: int) -> HtbClass:
        bursts = burst_ns(class_bps, rate_bps, mtu), burst_ns(rate_bps, rate_bps, mtu)
        quantum_bytes = mtu + ETHERNET_HEADER_BYTES
        return HtbClass(device, classid, parent, prio, class_bps, rate_bps, *bursts, quantum_bytes)

    return [
        htb_class(LINE_CLASS, ROOT_HANDLE, 0, rate_bps),
        htb_class(CONTROL_CLASS, LINE_CLASS, 0, rate_bps),
        htb_class(DATA_CLASS, LINE_CLASS, 1, max(rate_bps // DATA_SHARE_OF_RATE, 8)),
    ]


def port_settings(clos: Clos, port: Port, link: Link) -> PortSettings:
    """What the lab file says about a port, with HTB's burst."""
    settings = planned(clos, port, link, burst_ns(link.rate_bps, link.rate_bps, clos.spec.mtu))
    # what netem delays is in HTB's backlog, but not in the way of anything
    return replace(settings, virtual_queue=_delay_ns(clos, link) > 0)


def _host_routes(clos: Clos, host: Node, uplinks: dict[int, tuple[Port, Port]]) -> tuple[list[Route], list[Sid]]:
    spec, index = clos.spec, host.index
    group, slot = clos.group_of(index), clos.slot_of(index)
    routes, sids = [], []
    for plane, (own, peer) in uplinks.items():
        own_t0 = address.usid(plane, address.Kind.T0, group)
        routes.append(Route(usid_prefix(own_t0), own.name, link_local(peer)))
        downlink = address.usid(plane, address.Kind.DOWNLINK, slot)
        sids.append(Sid(usid_prefix(downlink), SID_DEVICE, "End.DT6", LOCAL_TABLE))
    for other in range(spec.hosts):
        if other == index:
            continue
        plane, t1 = kernel_path_ev(clos, index, other)
        segment = text(address.sid_address(address.DEFAULT_BLOCK, *clos.path_usids(index, other, plane, t1)))
        # On the SID device, so that the route outlives its port: only the /48 to the T0 goes with that one.
        routes.append(Route(f"{text(address.host_address(other))}/128", SID_DEVICE, segment=segment))
    return routes, sids


def _switch_routes(clos: Clos, switch: Node, peers: list[tuple[Port, Port]]) -> tuple[list[Route], list[Sid]]:
    assert switch.plane is not None
    kind = address.Kind.T0 if switch.kind == "t0" else address.Kind.T1
    own = address.usid(switch.plane, kind, switch.index)
    # What cannot be forwarded vanishes without an ICMPv6 error, as it would in a switch.
    routes = [Route("::/0", "", kind="blackhole")]
    for port, far in peers:
        node = clos.nodes[far.node]
        if node.kind == "host":
            usid = address.usid(switch.plane, address.Kind.DOWNLINK, clos.slot_of(node.index))
        else:
            far_kind = address.Kind.T0 if node.kind == "t0" else address.Kind.T1
            usid = address.usid(switch.plane, far_kind, node.index)
        routes.append(Route(usid_prefix(usid), port.name, link_local(far)))
    return routes, [Sid(usid_prefix(own), SID_DEVICE, "End")]


def _sid_device(node: Node, ifindex: int, mtu: int) -> tuple[Interface, Interface]:
    """A veth pair that stays inside the node: it takes nothing but what a lab's links take.

    (`lo` takes a SID and forwards nothing. Loading the dummy or ifb module would leave a device on the machine itself.)
    """
    near, far = Port(node.name, SID_DEVICE, ifindex), Port(node.name, SID_DEVICE_END, ifindex + 1)
    return (
        Interface(near.name, near.ifindex, "veth", near.mac, mtu, far.ifindex),
        Interface(far.name, far.ifindex, "veth", far.mac, mtu, near.ifindex),
    )


def _node(clos: Clos, node: Node, sid_ifindex: int) -> NodePlan:
    ports = clos.ports(node.name)
    mtu = clos.spec.mtu
    interfaces = [LOOPBACK, *_sid_device(node, sid_ifindex, mtu)]
    neighbours, qdiscs, classes, filters, settings = [], [], [], [], []
    for port, link in ports:
        peer = clos.peer(port, link)
        interfaces.append(Interface(port.name, port.ifindex, "veth", port.mac, mtu, peer.ifindex))
        neighbours.append(Neighbour(port.name, link_local(peer), peer.mac))
        qdiscs += _qdiscs(clos, port.name, link)
        classes += htb_classes(port.name, link.rate_bps, mtu)
        filters.append(Filter(port.name, "egress", PORT_PROGRAM))
        settings.append(port_settings(clos, port, link))
    addresses = []
    if node.kind == "host":
        addresses = [Address(SID_DEVICE, f"{text(address.host_address(node.index))}/128")]
        uplinks = {link.plane: (port, clos.peer(port, link)) for port, link in ports}
        routes, sids = _host_routes(clos, node, uplinks)
        filters += [Filter(port.name, "ingress", INGRESS_PROGRAM) for port, _ in ports]
    else:
        routes, sids = _switch_routes(clos, node, [(port, clos.peer(port, link)) for port, link in ports])
    return NodePlan(
        node=node.name,
        namespace=namespace_name(clos.spec.name, node.name),
        sysctls=HOST_SYSCTLS if node.kind == "host" else SWITCH_SYSCTLS,
        interfaces=tuple(interfaces),
        addresses=tuple(addresses),
        neighbours=tuple(neighbours),
        routes=tuple(routes),
        sids=tuple(sids),
        qdiscs=tuple(qdiscs),
        classes=tuple(classes),
        filters=tuple(filters),
        ports=tuple(settings),
    )


def build(clos: Clos) -> FabricPlan:
    """The desired state of all nodes of a Clos. SID devices get the ifindexes after those of all ports.

    Raises InputError for a routing that there is in virtual time only.
    """
    if not clos.spec.source_routed:
        raise InputError(
            f"lab {clos.spec.name}: routing: {clos.spec.routing} exists in virtual time only",
            "use mrclab sim, or write routing: srv6",
        )
    first = max((link.b.ifindex for link in clos.links.values()), default=0) + 1
    nodes = {node.name: _node(clos, node, first + 2 * at) for at, node in enumerate(clos.nodes.values())}
    return FabricPlan(clos.spec.name, nodes)
