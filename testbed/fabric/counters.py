"""The fabric's own counters: packets per SID (which switch a packet really crossed), packets per port, carrier.

They count from the making of the lab, or of the object after a repair; readers take differences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from testbed.fabric import messages, srv6
from testbed.fabric.netlink import Kernel
from testbed.fabric.plan import CONTROL_LEAF, DATA_LEAF
from testbed.topology.clos import Port


@dataclass(frozen=True, slots=True)
class PortStats:
    """One port: what left and came in, what its queues dropped, and what waits in them."""

    tx_packets: int
    tx_bytes: int
    rx_packets: int
    rx_bytes: int
    data_dropped: int
    data_backlog_bytes: int
    control_dropped: int
    control_backlog_bytes: int


def sid_counters(kernel: Kernel, nodes: Iterable[str]) -> dict[str, int]:
    """Packets that each switch has taken for its own uSID. A node without a counting SID has 0."""
    return {name: _sid_packets(kernel, name) for name in nodes}


def _sid_packets(kernel: Kernel, name: str) -> int:
    packets = 0
    for data in kernel[name].dump(messages.ROUTES):
        message = srv6.Srv6Route(data)
        message.decode()
        if message.get_attr("RTA_ENCAP_TYPE") == srv6.LWTUNNEL_ENCAP_SEG6_LOCAL:
            counters = message.get_attr("RTA_ENCAP").get_attr("SEG6_LOCAL_COUNTERS")
            packets += counters.get_attr("SEG6_LOCAL_CNT_PACKETS") if counters is not None else 0
    return packets


def port_stats(kernel: Kernel, nodes: Iterable[str]) -> dict[tuple[str, str], PortStats]:
    """(node, port) -> its counters, for the fabric ports of some nodes."""
    return {(name, port): stats for name in nodes for port, stats in _node_stats(kernel, name)}


def _node_stats(kernel: Kernel, name: str) -> Iterable[tuple[str, PortStats]]:
    queues = {}
    for data in kernel[name].dump(messages.QDISCS):
        message = tcmsg(data)
        message.decode()
        queue = message.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")
        queues[message["index"], message["handle"]] = queue["drops"], queue["backlog"]
    for data in kernel[name].dump(messages.LINKS):
        message = ifinfmsg(data)
        message.decode()
        ifindex = message["index"]
        if (ifindex, DATA_LEAF) not in queues:
            continue
        stats = message.get_attr("IFLA_STATS64")
        yield (
            message.get_attr("IFLA_IFNAME"),
            PortStats(
                stats["tx_packets"],
                stats["tx_bytes"],
                stats["rx_packets"],
                stats["rx_bytes"],
                *queues[ifindex, DATA_LEAF],
                *queues[ifindex, CONTROL_LEAF],
            ),
        )


def carrier(kernel: Kernel, port: Port) -> bool:
    """Is the port up at both of its ends?"""
    for data in kernel[port.node].dump(messages.LINKS):
        message = ifinfmsg(data)
        message.decode()
        if message["index"] == port.ifindex:
            return bool(message["flags"] & messages.IFF_LOWER_UP)
    return False
