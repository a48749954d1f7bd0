"""Which act is done by which hand: the same for every fabric that has ports, switches and agents (`injector.Hands`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

from testbed.chaos.kinds.acts import Act, Blank, Change, Deny, Down, Kill, Pause
from testbed.chaos.kinds.kind import Kind
from testbed.topology.clos import Clos, Port
from testbed.topology.port_settings import PortSettings
from testbed.topology.port_stamps import PortStamps


class PortControl(Protocol):
    """Ports that can be switched off, changed and restored."""

    def take_down(self, port: Port) -> None:
        """Switch this end off."""

    def bring_up(self, port: Port) -> None:
        """Switch it on with all that it had; no error when it is on already."""

    def settings(self, port: Port) -> PortSettings:
        """What the port does now."""

    def change(self, port: Port, **settings: Any) -> None:
        """Change settings by name."""

    def stamps(self, port: Port) -> PortStamps:
        """What the port noted of faults since `forget_stamps`."""

    def forget_stamps(self, port: Port) -> None:
        """The next drop is the first one."""


class Fabric(Protocol):
    """What a lab is, on the kernel or simulated, for those who break it."""

    @property
    def clos(self) -> Clos:
        """Its nodes and links."""

    @property
    def ports(self) -> PortControl:
        """Its ports."""


LabT = TypeVar("LabT", bound=Fabric)


class ActingHands(ABC, Generic[LabT]):
    """Acts by kind of act; a fabric says how each is done. Everything is no error when it is so already."""

    def __init__(self, lab: LabT) -> None:
        self._lab = lab

    @abstractmethod
    def refuse_unable(self, kind: Kind) -> None:
        """See Hands."""

    @abstractmethod
    def delay(self, port: Port, delay_ns: int, jitter_ns: int) -> None:
        """What the port sends takes so much longer; 0 for both: as made."""

    @abstractmethod
    def set_tables(self, node: str, there: bool) -> None:
        """A switch has its forwarding tables, or none."""

    @abstractmethod
    def set_paused(self, host: str, paused: bool) -> None:
        """A host's agent stands still, or goes on."""

    @abstractmethod
    def set_alive(self, host: str, alive: bool) -> None:
        """A host's agent is killed, or started anew when it is not there."""

    @abstractmethod
    def set_denied(self, link: str, denied: bool) -> None:
        """A link is on the denylist, or off it."""

    def found(self, act: Act) -> Any:
        """See Hands: of settings their value; of everything else there is nothing to know, it is as planned."""
        match act:
            case Change(_, "delay"):
                return [0, 0]
            case Change(port, setting):
                return getattr(self._lab.ports.settings(port), setting)
        return None

    def watch(self, port: Port) -> None:
        """See Hands."""
        self._lab.ports.forget_stamps(port)

    def stamps(self, port: Port) -> PortStamps:
        """See Hands."""
        return self._lab.ports.stamps(port)

    def do(self, act: Act) -> None:
        """See Hands."""
        match act:
            case Down(port):
                self._lab.ports.take_down(port)
            case Change(port, setting, value):
                self._change(port, setting, value)
            case Blank(node):
                self.set_tables(node, False)
            case Pause(host):
                self.set_paused(host, True)
            case Kill(host):
                self.set_alive(host, False)
            case Deny(link):
                self.set_denied(link, True)

    def restore(self, act: Act, found: Any) -> None:
        """See Hands."""
        match act:
            case Down(port):
                self._lab.ports.bring_up(port)
            case Change(port, setting):
                self._change(port, setting, found)
            case Blank(node):
                self.set_tables(node, True)
            case Pause(host):
                self.set_paused(host, False)
            case Kill(host):
                self.set_alive(host, True)
            case Deny(link):
                self.set_denied(link, False)

    def _change(self, port: Port, setting: str, value: Any) -> None:
        if setting == "delay":  # what the cable does, not the port's program
            self.delay(port, *value)
        else:
            self._lab.ports.change(port, **{setting: value})
