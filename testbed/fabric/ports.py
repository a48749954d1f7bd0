"""What faults do to a port: one end of a link down and back exactly as the plan has it; other settings and other rates.

`down` flushes every address, route, SID and neighbour entry of that end, for good; the other end only loses its
carrier and keeps them. So bringing up means: up, then everything that the plan has on that device. Settings are changed
in the port map, without touching a queue; only a rate is HTB's, whose classes are changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from testbed.fabric import messages, plan
from testbed.fabric.apply import node_requests
from testbed.fabric.netlink import Kernel
from testbed.fabric.plan import FabricPlan
from testbed.fabric.portmap import EvLoss, PortMap
from testbed.topology.clos import Port
from testbed.topology.port_settings import PortSettings
from testbed.topology.port_stamps import PortStamps


class Ports:
    """The ports of one lab, to be switched off, changed and restored. For one thread, as `kernel` is."""

    def __init__(
        self,
        kernel: Kernel,
        fabric: FabricPlan,
        port_map: Callable[[], PortMap],
        ev_losses: Callable[[], Iterable[EvLoss]] = tuple,
    ) -> None:
        """`port_map` is asked when it is needed: an open one keeps the map after the lab has gone."""
        self._ev_losses = ev_losses
        self._kernel = kernel
        self._plan = fabric
        self._port_map = port_map

    def take_down(self, port: Port) -> None:
        """Set this end down. Raises KernelError when the port is not there."""
        self._kernel[port.node].send([messages.set_up(port.ifindex, False, f"device {port.name} down")])

    def bring_up(self, port: Port) -> None:
        """Set this end up and restore what it had. Doing it to a port that is up changes nothing."""
        self._kernel[port.node].send(node_requests(self._plan.nodes[port.node], [port.name]))

    def settings(self, port: Port) -> PortSettings:
        """What the port does now."""
        return self._port_map().settings(port.ifindex, port.name)

    def change(self, port: Port, **settings: Any) -> None:
        """Change settings by name (fields of PortSettings), also while traffic runs. `rate_bps` is the line's.

        Raises ValueError for what makes no sense; then nothing has changed.
        """
        before = self.settings(port)
        wanted = replace(before, **settings)
        if wanted.rate_bps != before.rate_bps:
            wanted = replace(wanted, burst_ns=plan.burst_ns(wanted.rate_bps, wanted.rate_bps, self._mtu(port)))
            classes = plan.htb_classes(port.name, wanted.rate_bps, self._mtu(port))
            self._kernel[port.node].send([messages.htb_class(item, port.ifindex, change=True) for item in classes])
        self._port_map().set(port.ifindex, wanted)

    def stamps(self, port: Port) -> PortStamps:
        """What the port noted of faults since `forget_stamps`."""
        counters = self._port_map().counters(port.ifindex)
        ours: list[EvLoss] = []
        if counters.first_drop_ns:
            losses = (one for one in self._ev_losses() if one.ifindex == port.ifindex)
            ours = [one for one in losses if one.first_ns >= counters.first_drop_ns]
        return PortStamps(
            lost_data=counters.lost_data,
            first_lost_data_ns=counters.first_lost_data_ns,
            last_lost_data_ns=counters.last_lost_data_ns,
            first_drop_ns=counters.first_drop_ns,
            last_use_ns=counters.last_use_ns,
            longest_ns=max((one.last_ns - one.first_ns for one in ours), default=0),
            first_lost=tuple(sorted((one.src, one.dst, one.ev, one.first_ns) for one in ours)),
        )

    def forget_stamps(self, port: Port) -> None:
        """The next drop is the first one."""
        self._port_map().forget_first_drop(port.ifindex)

    def restore(self, port: Port, *names: str) -> None:
        """Give these settings, or without names all, back what the plan says."""
        planned = next(item for item in self._plan.nodes[port.node].ports or () if item.device == port.name)
        chosen = names or [name for name in PortSettings.__slots__ if name != "device"]
        self.change(port, **{name: getattr(planned, name) for name in chosen})

    def _mtu(self, port: Port) -> int:
        return next(item.mtu for item in self._plan.nodes[port.node].interfaces if item.ifindex == port.ifindex)
