"""The fabric's own counters: packets per SID (which switch a packet really crossed), packets per port, carrier.

They count from the making of the lab, or of the object after a repair; readers take differences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from testbed.fabric import messages, srv6
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


def _sid_packets(socket: RtSocket) -> int:
    packets = 0
    device = ifinfmsg(socket.ask(messages.link_named(SID_DEVICE)))
    device.decode()
    for data in socket.dump(messages.routes_of(device["index"])):
        message = srv6.Srv6Route(data)
        message.decode()
        if message.get_attr("RTA_ENCAP_TYPE") == srv6.LWTUNNEL_ENCAP_SEG6_LOCAL:
            counters = message.get_attr("RTA_ENCAP").get_attr("SEG6_LOCAL_COUNTERS")
            packets += counters.get_attr("SEG6_LOCAL_CNT_PACKETS") if counters is not None else 0
    return packets


def port_stats(kernel: Kernel, nodes: Iterable[str]) -> dict[tuple[str, str], PortStats]:
    """(node, port) -> its counters, for the fabric ports of some nodes."""
    return {(name, port): stats for name in nodes for port, stats in _node_stats(kernel[name])}


def _node_stats(socket: RtSocket) -> Iterable[tuple[str, PortStats]]:
    queues = {}
    for data in socket.dump(messages.QDISCS):
        message = tcmsg(data)
        message.decode()
        stats = message.get_attr("TCA_STATS2")
        basic, queue = stats.get_attr("TCA_STATS_BASIC"), stats.get_attr("TCA_STATS_QUEUE")
        queues[message["index"], message["handle"]] = QueueStats(
            basic["packets"], basic["bytes"], queue["drops"], queue["backlog"]
        )
    for data in socket.dump(messages.LINKS):
        message = ifinfmsg(data)
        message.decode()
        ifindex = message["index"]
        if (ifindex, DATA_LEAF) in queues:
            stats = message.get_attr("IFLA_STATS64")
            moved = stats["tx_packets"], stats["tx_bytes"], stats["rx_packets"], stats["rx_bytes"]
            leaves = queues[ifindex, DATA_LEAF], queues[ifindex, CONTROL_LEAF]
            yield message.get_attr("IFLA_IFNAME"), PortStats(*moved, *leaves)


def carrier(kernel: Kernel, port: Port) -> bool:
    """Is the link of a port up, at both ends?"""
    message = ifinfmsg(kernel[port.node].ask(messages.link_named(port.name)))
    message.decode()
    return bool(message["flags"] & messages.IFF_LOWER_UP)
