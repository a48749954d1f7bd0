"""What faults do to ports, as `testbed.fabric.ports` does it on the kernel: down and back, other settings and rates.

A link carries packets while both its ends are up; when either goes down, both lose carrier.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from testbed.sim.network import SimNetwork
from testbed.topology.clos import Link, Port
from testbed.topology.port_settings import PortSettings, planned
from testbed.topology.port_stamps import PortStamps


class SimPorts:
    """The ports of a simulated lab."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network
        self._clos = network.clos
        self._down: set[Port] = set()

    def take_down(self, port: Port) -> None:
        """Switch this end off."""
        link = self._link_of(port)
        if not self._down.intersection(link.ends()):
            self._network.cut(link.name)
        self._down.add(port)

    def bring_up(self, port: Port) -> None:
        """Switch it on; no error when it is on already."""
        if port not in self._down:
            return
        self._down.remove(port)
        link = self._link_of(port)
        if not self._down.intersection(link.ends()):
            self._network.mend(link.name)

    def settings(self, port: Port) -> PortSettings:
        """What the port does now."""
        return self._network.port(port).port

    def change(self, port: Port, **settings: Any) -> None:
        """Change settings by name. Raises ValueError for what makes no sense; then nothing has changed."""
        link = self._network.port(port)
        link.set_port(replace(link.port, **settings))

    def stamps(self, port: Port) -> PortStamps:
        """What the port noted of faults since `forget_stamps`; a port that works notes nothing here."""
        return self._network.port(port).noted()

    def forget_stamps(self, port: Port) -> None:
        """The next drop is the first one."""
        self._network.port(port).stamps = PortStamps()

    def delay(self, port: Port, delay_ns: int, jitter_ns: int) -> None:
        """What leaves by the port takes so much longer, more or less by up to the jitter; 0 for both: as made."""
        self._network.port(port).set_delay(delay_ns, jitter_ns)

    def restore(self, port: Port, *names: str) -> None:
        """Give these settings, or without names all, back what the lab file says."""
        wanted = planned(self._clos, port, self._link_of(port))
        chosen = names or [field.name for field in fields(PortSettings)]
        self.change(port, **{name: getattr(wanted, name) for name in chosen})

    def _link_of(self, port: Port) -> Link:
        return next(link for own, link in self._clos.ports(port.node) if own == port)
