"""What the kernel has to hold for a lab, as data: computed from the Clos, shown by a dry run, applied, read back.

One `NodePlan` per namespace, made of `objects`. Here: devices, queues, ports; how a node forwards is `routing`'s.
Addresses of next hops are link-local and computed from the ifindex of the far port; neighbour entries are permanent, so
that nothing has to be discovered.
"""

from __future__ import annotations

from dataclasses import replace

from testbed.fabric import routing
from testbed.fabric.addressing import link_local, namespace_name, text, usid_prefix
from testbed.fabric.objects import (
    Address,
    FabricPlan,
    Filter,
    HtbClass,
    Interface,
    Neighbour,
    NodePlan,
    Qdisc,
    Route,
    Sid,
)
from testbed.fabric.routing.srv6 import LOCAL_TABLE, kernel_path_ev
from testbed.topology.clos import SID_DEVICE, Clos, Link, Node, Port
from testbed.topology.labspec import MAX_QUEUE_BYTES
from testbed.topology.port_settings import PortSettings, planned

__all__ = [
    "LOCAL_TABLE",
    "Address",
    "FabricPlan",
    "Filter",
    "HtbClass",
    "Interface",
    "Neighbour",
    "NodePlan",
    "Qdisc",
    "Route",
    "Sid",
    "build",
    "burst_ns",
    "clsact",
    "htb_classes",
    "kernel_path_ev",
    "link_local",
    "namespace_name",
    "port_settings",
    "text",
    "usid_prefix",
]

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

# One block for each hook and namespace, not one for each port: the kernel goes through all blocks of the machine for
# each new one that is not shared, and each takes 2 KB.
HOOK_BLOCKS = {"ingress": 1, "egress": 2}

INGRESS_PROGRAM = "mrclab_ingress"
PORT_PROGRAM = "mrclab_port"
SID_DEVICE_END = f"{SID_DEVICE}-end"

# Before the links come: no duplicate address detection, no generated addresses, no router solicitations, and no
# "all routers" group (that is what `default` forwarding 0 does), so that ports carry nothing but the lab's packets.
# Order matters: writing all/forwarding sets default/forwarding too.
LOOPBACK = Interface("lo", 1, "loopback", "00:00:00:00:00:00", 65536, None)  # every namespace is born with it
_QUIET = {
    "net.ipv6.conf.{}.disable_ipv6": "0",
    "net.ipv6.conf.{}.accept_dad": "0",
    "net.ipv6.conf.{}.addr_gen_mode": "1",
    "net.ipv6.conf.{}.accept_ra": "0",
    "net.ipv6.conf.{}.router_solicitations": "0",
}
HOST_SYSCTLS = {key.format(scope): value for scope in ("all", "default") for key, value in _QUIET.items()}
SWITCH_SYSCTLS = HOST_SYSCTLS | {"net.ipv6.conf.all.forwarding": "1", "net.ipv6.conf.default.forwarding": "0"}


def _delay_ns(clos: Clos, link: Link) -> int:
    delay = clos.spec.delay
    return (delay.host if link.tier == "nic-t0" else delay.fabric) // TICK_NS * TICK_NS


def _leaf(clos: Clos, device: str, link: Link, handle: int, parent: int) -> Qdisc:
    if delay_ns := _delay_ns(clos, link):
        jitter_ns = clos.spec.delay.jitter // TICK_NS * TICK_NS
        return Qdisc(device, "netem", handle, parent, delay_ns=delay_ns, jitter_ns=jitter_ns)
    return Qdisc(device, "bfifo", handle, parent, limit_bytes=NO_LIMIT_BYTES)


def clsact(device: str) -> Qdisc:
    """Where programs hang at a port: the blocks of its namespace."""
    return Qdisc(
        device,
        "clsact",
        0xFFFF0000,
        0xFFFFFFF1,
        ingress_block=HOOK_BLOCKS["ingress"],
        egress_block=HOOK_BLOCKS["egress"],
    )


def _qdiscs(clos: Clos, device: str, link: Link) -> list[Qdisc]:
    return [
        Qdisc(device, "htb", ROOT_HANDLE, 0xFFFFFFFF, default_class=DATA_CLASS & 0xFFFF, size_table=True),
        clsact(device),
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
    neighbours, qdiscs, classes, settings = [], [], [], []
    for port, link in ports:
        peer = clos.peer(port, link)
        interfaces.append(Interface(port.name, port.ifindex, "veth", port.mac, mtu, peer.ifindex))
        neighbours.append(Neighbour(port.name, link_local(peer), peer.mac))
        qdiscs += _qdiscs(clos, port.name, link)
        classes += htb_classes(port.name, link.rate_bps, mtu)
        settings.append(port_settings(clos, port, link))
    filters = [Filter("egress", PORT_PROGRAM)]
    if node.kind == "host":
        filters.append(Filter("ingress", INGRESS_PROGRAM))
    forwarding = routing.of_node(clos, node)
    return NodePlan(
        node=node.name,
        namespace=namespace_name(clos.spec.name, node.name),
        sysctls=(HOST_SYSCTLS if node.kind == "host" else SWITCH_SYSCTLS) | forwarding.sysctls,
        interfaces=tuple(interfaces),
        addresses=forwarding.addresses,
        neighbours=tuple(neighbours),
        routes=forwarding.routes,
        hops=forwarding.hops,
        sids=forwarding.sids,
        qdiscs=tuple(qdiscs),
        classes=tuple(classes),
        filters=tuple(filters),
        ports=tuple(settings),
    )


def build(clos: Clos) -> FabricPlan:
    """The desired state of all nodes of a Clos. SID devices get the ifindexes after those of all ports."""
    first = max((link.b.ifindex for link in clos.links.values()), default=0) + 1
    nodes = {node.name: _node(clos, node, first + 2 * at) for at, node in enumerate(clos.nodes.values())}
    return FabricPlan(clos.spec.name, nodes)
