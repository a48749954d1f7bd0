"""Ways into a lab that is up: its model, its kernel, its ports, its agents, and commands run inside its nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path

from agents.wire import address
from testbed.fabric import netns, plan
from testbed.fabric.netlink import Kernel
from testbed.fabric.plan import FabricPlan
from testbed.fabric.portmap import EvUse, PortMap, ev_losses, ev_uses
from testbed.fabric.ports import Ports
from testbed.fabric.programs import EVS_MAP, PORTS_MAP
from testbed.fabric.tables import Tables
from testbed.lab import state
from testbed.lab.agents import AgentClient, AgentGroup, socket_path
from testbed.lab.state import LabState
from testbed.topology import clos
from testbed.topology.clos import Clos
from testbed.topology.errors import InputError, nearest
from testbed.topology.labfile import load_lab
from testbed.topology.labspec import LabSpec, is_lab_name

_SIGNAL_EXIT_BASE = 128  # a shell's code for "ended by signal N" is 128 + N


class RunningLab:
    """A lab that is up. Close it (or use `with`) to let go of its namespaces. For one thread."""

    def __init__(self, recorded: LabState) -> None:
        self._recorded = recorded
        self.name = recorded.name
        self.spec: LabSpec = recorded.spec
        self.dir: Path = recorded.directory
        self.source_file = recorded.source_file

    @cached_property
    def clos(self) -> Clos:
        """Its nodes and links."""
        return clos.build(self.spec)

    @cached_property
    def plan(self) -> FabricPlan:
        """What its kernel state has to be."""
        return plan.build(self.clos)

    @cached_property
    def kernel(self) -> Kernel:
        """rtnetlink into its namespaces."""
        return Kernel(self.name)

    @cached_property
    def ports(self) -> Ports:
        """Its ports, to be taken down, changed and restored."""
        losses = partial(ev_losses, self._recorded.maps[EVS_MAP])
        return Ports(self.kernel, self.plan, lambda: self.port_map, losses)

    @cached_property
    def tables(self) -> Tables:
        """The forwarding tables of its switches, to be forgotten and programmed anew."""
        return Tables(self.kernel, self.plan)

    @cached_property
    def port_map(self) -> PortMap:
        """Settings and counters of its ports."""
        return PortMap.of_id(self._recorded.maps[PORTS_MAP])

    def ev_uses(self) -> list[EvUse]:
        """When which EV was used last, at the ports that watch EVs."""
        return list(ev_uses(self._recorded.maps[EVS_MAP]))

    @property
    def hosts(self) -> list[str]:
        """Names of its hosts, in order."""
        return [host.name for host in self.clos.hosts]

    @property
    def agent_pids(self) -> dict[str, int]:
        """The agents' processes as they were started, by host."""
        return dict(self._recorded.agents)

    def agent(self, host: str) -> AgentClient:
        """A client of one host's agent."""
        return AgentClient(socket_path(self.dir, host))

    def agents(self, hosts: Iterable[str] | None = None) -> AgentGroup:
        """Clients of all hosts' agents, or some, to be asked side by side."""
        return AgentGroup.of(self.dir, self.hosts if hosts is None else hosts)

    def close(self) -> None:
        """Close the sockets in its namespaces, and let go of its port map."""
        for name in ("kernel", "port_map"):
            if name in self.__dict__:
                self.__dict__[name].close()

    def __enter__(self) -> RunningLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_lab(name: str) -> RunningLab:
    """A lab that is wholly up. Raises InputError, with the nearest name, when there is none."""
    return RunningLab(state.require_up(name))


def the_lab(name: str | None) -> RunningLab:
    """The lab of that name, or without a name the only one that is up. Raises InputError when it is not one."""
    if name is not None:
        return open_lab(name)
    up = state.names()
    if len(up) == 1:
        return open_lab(up[0])
    if not up:
        raise InputError("no lab is up", "start one with: mrclab up")
    raise InputError(f"several labs are up: {', '.join(up)}", "say which one")


def default_lab() -> str:
    """The lab that is meant where none is named and none has to be up: the only one that is, else `demo`."""
    up = state.names()
    return up[0] if len(up) == 1 else "demo"


def spec_of(lab: str) -> LabSpec:
    """The spec of the lab that is up under that name, else of that lab file. Raises InputError when there is none."""
    found = state.load(lab) if is_lab_name(lab) else None
    return load_lab(lab) if found is None else found.spec


def exec_in(lab: RunningLab, node: str, argv: Sequence[str]) -> int:
    """Run a program in a node's namespace, on our own stdin, stdout and stderr; its exit code.

    A word that is a host's name becomes that host's address, as at Mininet's prompt. No shell is involved. Raises
    InputError for an unknown node or program.
    """
    if node not in lab.clos.nodes:
        raise InputError(f"lab {lab.name} has no node {node!r}", nearest(node, lab.clos.nodes))
    addresses = {host.name: plan.text(address.host_address(host.index)) for host in lab.clos.hosts}
    with netns.inside(plan.namespace_name(lab.name, node)):
        try:
            process = subprocess.Popen([addresses.get(word, word) for word in argv])
        except FileNotFoundError:
            raise InputError(f"there is no program {argv[0]!r}", "is it installed?") from None
        except PermissionError:
            raise InputError(f"{argv[0]!r} cannot be run") from None
    code = _wait(process)
    return code if code >= 0 else _SIGNAL_EXIT_BASE - code


def _wait(process: subprocess.Popen[bytes]) -> int:
    """An interrupt at the terminal reaches the program too; how it ends is its own business."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
