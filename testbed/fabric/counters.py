"""The fabric's own counters: packets per SID (which switch a packet really crossed), packets per port, carrier.

They count from the making of the lab, or of the object after a repair; readers take differences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.fabric import messages, rtnl, srv6
from testbed.fabric.attributes import as_int, as_text, pick
from testbed.fabric.netlink import Kernel, RtSocket
from testbed.fabric.plan import CONTROL_LEAF, DATA_LEAF
from testbed.topology.clos import SID_DEVICE, Port


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One class of a port: what has left it, what it dropped, what waits in it."""

    packets: int
    bytes: int
    dropped: int
    backlog_bytes: int


@dataclass(frozen=True, slots=True)
class PortStats:
    """One port: what left and came in, and its two queues."""

    tx_packets: int
    tx_bytes: int
    rx_packets: int
    rx_bytes: int
    data: QueueStats
    control: QueueStats


def sid_counters(kernel: Kernel, nodes: Iterable[str]) -> dict[str, int]:
    """Packets that each switch has taken for its own uSID. A node without a counting SID has 0."""
    return {name: _sid_packets(kernel[name]) for name in nodes}


def _sid_packets(kernel: RtSocket) -> int:
    packets = 0
    _, _, ifindex, _, _ = rtnl.IFINFOMSG.unpack_from(kernel.ask(messages.link_named(SID_DEVICE)), rtnl.NLMSGHDR.size)
    for data in kernel.dump(messages.routes_of(ifindex)):
        values = pick(data, rtnl.NLMSGHDR.size + rtnl.RTMSG.size)
        if as_int(values.get(rtnl.RTA_ENCAP_TYPE, b"")) == rtnl.LWTUNNEL_ENCAP_SEG6_LOCAL:
            packets += srv6.read_packets(values[rtnl.RTA_ENCAP])
    return packets


def port_stats(kernel: Kernel, nodes: Iterable[str]) -> dict[tuple[str, str], PortStats]:
    """(node, port) -> its counters, for the fabric ports of some nodes."""
    return {(name, port): stats for name in nodes for port, stats in _node_stats(kernel[name])}


def _node_stats(kernel: RtSocket) -> Iterable[tuple[str, PortStats]]:
    queues = {}
    for data in kernel.dump(messages.QDISCS):
        _, ifindex, handle, _, _ = rtnl.TCMSG.unpack_from(data, rtnl.NLMSGHDR.size)
        stats = pick(pick(data, rtnl.NLMSGHDR.size + rtnl.TCMSG.size)[rtnl.TCA_STATS2])
        sent_bytes, packets = rtnl.GNET_STATS_BASIC.unpack_from(stats[rtnl.TCA_STATS_BASIC])
        _, backlog_bytes, drops, _, _ = rtnl.GNET_STATS_QUEUE.unpack_from(stats[rtnl.TCA_STATS_QUEUE])
        queues[ifindex, handle] = QueueStats(packets, sent_bytes, drops, backlog_bytes)
    for data in kernel.dump(messages.LINKS):
        _, _, ifindex, _, _ = rtnl.IFINFOMSG.unpack_from(data, rtnl.NLMSGHDR.size)
        if (ifindex, DATA_LEAF) in queues:
            values = pick(data, rtnl.NLMSGHDR.size + rtnl.IFINFOMSG.size)
            rx_packets, tx_packets, rx_bytes, tx_bytes = rtnl.RTNL_LINK_STATS64.unpack_from(values[rtnl.IFLA_STATS64])
            leaves = queues[ifindex, DATA_LEAF], queues[ifindex, CONTROL_LEAF]
            name = as_text(values[rtnl.IFLA_IFNAME])
            yield name, PortStats(tx_packets, tx_bytes, rx_packets, rx_bytes, *leaves)


def carrier(kernel: Kernel, port: Port) -> bool:
    """Is the link of a port up, at both ends?"""
    answer = kernel[port.node].ask(messages.link_named(port.name))
    _, _, _, flags, _ = rtnl.IFINFOMSG.unpack_from(answer, rtnl.NLMSGHDR.size)
    return bool(flags & rtnl.IFF_LOWER_UP)


def working(kernel: Kernel, port: Port) -> bool:
    """Does the port send? The kernel puts its queue to work a moment after the carrier came; before, packets vanish."""
    values = pick(kernel[port.node].ask(messages.link_named(port.name)), rtnl.NLMSGHDR.size + rtnl.IFINFOMSG.size)
    return as_int(values[rtnl.IFLA_OPERSTATE]) == rtnl.IF_OPER_UP
