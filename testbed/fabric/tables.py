"""What faults do to a switch's forwarding tables: gone, and programmed anew as planned; its ports stay as they are."""

from __future__ import annotations

from testbed.fabric import messages
from testbed.fabric.apply import node_requests
from testbed.fabric.netlink import Kernel
from testbed.fabric.plan import FabricPlan
from testbed.topology.clos import SID_DEVICE


class Tables:
    """The tables of one lab's switches. For one thread, as `kernel` is."""

    def __init__(self, kernel: Kernel, plan: FabricPlan) -> None:
        self._kernel = kernel
        self._plan = plan

    def forget(self, node: str) -> None:
        """Take a switch's SID away, without which it forwards nothing; what arrives runs into its blackhole route."""
        ifindex = next(item.ifindex for item in self._plan.nodes[node].interfaces if item.device == SID_DEVICE)
        self._kernel[node].send([messages.set_up(ifindex, False, f"device {SID_DEVICE} down")])

    def program(self, node: str) -> None:
        """Give it back. Doing it to a switch that has it changes nothing."""
        self._kernel[node].send(node_requests(self._plan.nodes[node], [SID_DEVICE]))
