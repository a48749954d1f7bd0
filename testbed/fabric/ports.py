"""What faults do to a port: take one end of a link down, and bring it back exactly as the plan has it.

`down` flushes every address, route, SID and neighbour entry of that end, for good; the other end only loses its
carrier and keeps them. So bringing up means: up, then everything that the plan has on that device.
"""

from __future__ import annotations

from testbed.fabric import messages
from testbed.fabric.apply import node_requests
from testbed.fabric.netlink import Kernel
from testbed.fabric.plan import FabricPlan
from testbed.topology.clos import Port


class Ports:
    """The ports of one lab, to be switched off and restored. For one thread, as `kernel` is."""

    def __init__(self, kernel: Kernel, plan: FabricPlan) -> None:
        self._kernel = kernel
        self._plan = plan

    def take_down(self, port: Port) -> None:
        """Set this end down. Raises KernelError when the port is not there."""
        self._kernel[port.node].send([messages.set_up(port.ifindex, False, f"device {port.name} down")])

    def bring_up(self, port: Port) -> None:
        """Set this end up and restore what it had. Doing it to a port that is up changes nothing."""
        self._kernel[port.node].send(node_requests(self._plan.nodes[port.node], [port.name]))
