"""What faults do to a switch's forwarding tables: gone, and programmed anew as planned; its ports stay as they are."""

from __future__ import annotations

from testbed.fabric import messages
from testbed.fabric.apply import node_requests
from testbed.fabric.netlink import Kernel
from testbed.fabric.objects import FabricPlan, NodePlan, Rule
from testbed.topology.clos import SID_DEVICE

# A switch without SIDs forgets its tables by rules: what it sends itself (a routing daemon's) still goes.
_NOTHING_PASSES = (Rule(1, "main", own=True), Rule(2, "blackhole"))


class Tables:
    """The tables of one lab's switches. For one thread, as `kernel` is."""

    def __init__(self, kernel: Kernel, plan: FabricPlan) -> None:
        self._kernel = kernel
        self._plan = plan

    def forget(self, node: str) -> None:
        """Take a switch's SID away, or all tables by a rule; what arrives runs into a blackhole."""
        planned = self._plan.nodes[node]
        if planned.sids:
            down = messages.set_up(_sid_ifindex(planned), False, f"device {SID_DEVICE} down")
            self._kernel[node].send([down])
        else:
            self._kernel[node].send([messages.rule(rule, True) for rule in _NOTHING_PASSES])

    def program(self, node: str) -> None:
        """Give them back. Doing it to a switch that has them changes nothing."""
        planned = self._plan.nodes[node]
        if planned.sids:
            self._kernel[node].send(node_requests(planned, [SID_DEVICE]))
        else:
            self._kernel[node].send([messages.rule(rule, False) for rule in reversed(_NOTHING_PASSES)])


def _sid_ifindex(planned: NodePlan) -> int:
    return next(item.ifindex for item in planned.interfaces if item.device == SID_DEVICE)
