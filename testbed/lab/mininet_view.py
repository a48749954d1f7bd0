"""A running lab as a Mininet network, for Mininet's prompt: `h0 ping h5`, `links`, `pingall`, `h0 tcpdump`.

Mininet makes namespaces, moves interfaces into them and configures them by IPv4; here all of that exists already. So
its nodes attach to the lab's namespaces, its interfaces are only named, names in a command stand for the hosts' IPv6
addresses, and a node's shell starts when it is first used. Leaving the prompt ends the shells and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any

from mininet.cli import CLI
from mininet.link import Intf, Link
from mininet.log import error, lg
from mininet.moduledeps import pathCheck
from mininet.net import Mininet
from mininet.node import Node

from agents.wire import address
from testbed.fabric import counters, netns
from testbed.fabric.plan import namespace_name, text
from testbed.lab.running import RunningLab
from testbed.topology import clos


class LabNode(Node):  # type: ignore[misc]
    """A node whose namespace exists; `ip` is what its name stands for in commands, None for switches."""

    def __init__(self, name: str, namespace: str, ip: str | None) -> None:
        self._namespace = namespace
        self._constructed = False
        self.ip = ip
        super().__init__(name, inNamespace=False)  # Mininet shall not make one; `_popen` enters the lab's
        self._constructed = True

    @classmethod
    def setup(cls) -> None:
        """What a shell needs; Mininet would ask for ifconfig too."""
        pathCheck("mnexec", moduleName="Mininet")

    def startShell(self, mnopts: str | None = None) -> None:
        """Not when the node is constructed, but when its shell is first needed."""
        if self._constructed:
            super().startShell(mnopts)

    def _popen(self, cmd: list[str], **params: Any) -> subprocess.Popen[bytes]:
        with netns.inside(self._namespace):
            return subprocess.Popen(cmd, **params)

    def popen(self, *args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        """A process in the node, without a shell of it."""
        return super().popen(*args, **{"mncmd": ["mnexec", "-d"], **kwargs})  # type: ignore[no-any-return]

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:
        """Send a command to the node's shell, started now if it is the first."""
        self._need_shell()
        super().sendCmd(*args, **kwargs)

    def cmd(self, *args: Any, **kwargs: Any) -> str:
        """Run a command in the node's shell; its output."""
        self._need_shell()
        return super().cmd(*args, **kwargs)  # type: ignore[no-any-return]

    def _need_shell(self) -> None:
        if self.shell is None:
            self.startShell()


class LabIntf(Intf):  # type: ignore[misc]
    """A port that is there and configured."""

    def config(self, **_: Any) -> dict[str, Any]:
        """Nothing to do."""
        return {}

    def updateIP(self) -> str | None:
        """What the node's name stands for in a command."""
        return self.node.ip  # type: ignore[no-any-return]

    def IP(self) -> str | None:
        """The node's address; a host has the same on all planes."""
        return self.node.ip  # type: ignore[no-any-return]


class LabLink(Link):  # type: ignore[misc]
    """A link of the lab, by the lab's name for it."""

    def __init__(self, link: clos.Link, near: LabNode, far: LabNode, lab: RunningLab) -> None:
        self.name = link.name
        self._link = link
        self._lab = lab
        self.intf1 = LabIntf(link.a.name, node=near, link=self, mac=link.a.mac)
        self.intf2 = LabIntf(link.b.name, node=far, link=self, mac=link.b.mac)

    def __str__(self) -> str:
        return self.name

    def status(self) -> str:
        """Carrier of both ends."""
        ends = (counters.carrier(self._lab.kernel, port) for port in self._link.ends())
        return "({})".format(" ".join("OK" if up else "DOWN" for up in ends))


class LabNet(Mininet):  # type: ignore[misc]
    """The network that the prompt talks about. Made from the lab, never built, started or stopped."""

    def __init__(self, lab: RunningLab) -> None:
        self.hosts: list[LabNode] = []
        self.switches: list[LabNode] = []
        self.controllers: list[Node] = []
        self.links: list[LabLink] = []
        self.terms: list[Any] = []
        self.nameToNode: dict[str, LabNode] = {}
        for node in lab.clos.nodes.values():
            ip = text(address.host_address(node.index)) if node.kind == "host" else None
            made = LabNode(node.name, namespace_name(lab.name, node.name), ip)
            self.nameToNode[node.name] = made
            (self.hosts if node.kind == "host" else self.switches).append(made)
        for link in lab.clos.links.values():
            self.links.append(LabLink(link, self.nameToNode[link.a.node], self.nameToNode[link.b.node], lab))

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:
        """Mininet would forget the routes of a downed port; a fault does not."""
        error(f"use this, in another terminal: mrclab fault link-down {src}:{dst}, and mrclab fault clear\n")

    def end_shells(self) -> None:
        """End the shells that were started."""
        for node in self.nameToNode.values():
            node.terminate()


class LabCli(CLI):  # type: ignore[misc]
    """Mininet's prompt, for names with a dash in them."""

    prompt = "mrclab> "
    identchars = CLI.identchars + "-"


def prompt(lab: RunningLab, stdin: IO[str] | None = None, script: str | None = None) -> None:
    """Mininet's prompt over a running lab, until the user leaves it; or the commands of the file `script`.

    Commands that come by a pipe are taken as such a file: Mininet would hand the next line to the command that runs.
    What commands print goes to stdout.
    """
    typed = sys.stdin if stdin is None else stdin
    if script is None and not typed.isatty():
        script = f"/dev/fd/{typed.fileno()}"
    lg.setLogLevel("info")
    [handler] = lg.handlers
    stream = handler.setStream(sys.stdout)  # None when it was that already
    net = LabNet(lab)
    try:
        with contextlib.nullcontext(typed) if script is None else _no_input() as source:
            LabCli(net, stdin=source, script=script)
    finally:
        net.end_shells()
        handler.setStream(stream or sys.stdout)


@contextlib.contextmanager
def _no_input() -> Iterator[IO[str]]:
    """A terminal at which nobody types: never readable, unlike the end of a file."""
    reader, writer = os.pipe()
    with open(writer, "w"), open(reader) as nobody:
        yield nobody
