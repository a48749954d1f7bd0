"""`repair`: what a lab lacks of its plan is put back, object by object, and dead agents are started anew.

Nothing here needs the lab to be whole but its namespaces and links: a port that was removed by hand, or a namespace,
takes what hung on it with it; then the lab has to be built again, and `repair` says so. What is there though it is not
planned is named and left alone: somebody put it there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from testbed.fabric import apply, bpf, netns, observe
from testbed.fabric.plan import NodePlan
from testbed.fabric.programs import Programs, loaded
from testbed.lab import agents, frr, lock, state
from testbed.lab.running import RunningLab, open_lab
from testbed.topology.errors import InvalidRunError

# Sections whose objects are created or replaced by the same request that made them.
_REPLACED = frozenset({"interfaces", "addresses", "neighbours", "routes", "hops", "sids"})
_QUEUES = frozenset({"qdiscs", "classes"})  # of a port that misses one of these all are made anew
_UNEXPECTED = "unexpected"
_NO_PROGRAMS = "all ports: programs and port map: gone"


@dataclass(frozen=True, slots=True)
class Repaired:
    """What `repair` did, in words, and what still is not as planned."""

    lab: str
    mended: list[str] = field(default_factory=list)
    agents_started: list[str] = field(default_factory=list)
    routers_started: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def repair(name: str) -> Repaired:
    """Make a lab that is up as it was planned. Call it when no fault is in force: those are differences too.

    Raises InputError when the lab is busy or not up, InvalidRunError when a namespace or link is gone.
    """
    with lock.exclusive(name, "mrclab repair"):
        anew = _programs_anew(name)
        with open_lab(name) as lab:
            _refuse_ruins(lab)
            wrong = observe.differences(lab.plan, lab.kernel, lab.port_map)
            with loaded(state.require_up(name).programs) as program_fds:
                for node in {item.node for item in wrong}:
                    _mend(lab, lab.plan.nodes[node], [item for item in wrong if item.node == node], program_fds)
            gone = set(agents.dead(name, lab.agent_pids))
            dead = [host for host in lab.agent_pids if host in gone or not _listens(lab, host)]
            if dead:
                restart_agents(name, dead)
            routers = _restart_routers(lab) if lab.spec.routing == "bgp" else []
            left = [str(item) for item in observe.differences(lab.plan, lab.kernel, lab.port_map)]
            mended = [*anew, *(text for item in wrong if (text := str(item)) not in left)]
            return Repaired(name, mended, dead, routers, left)


def _programs_anew(name: str) -> list[str]:
    """Load the programs and the port map again where the last port that held one has lost it; says so if it was so."""
    found = state.require_up(name)
    if all(map(bpf.is_loaded, found.programs)) and all(map(bpf.map_is_there, found.maps.values())):
        return []
    with open_lab(name) as lab:
        _refuse_ruins(lab)
        with Programs(lab.plan.last_ifindex) as programs:
            found.programs, found.maps = programs.ids, programs.map_ids
            found.save()
            for node in lab.plan.nodes.values():
                apply.set_ports(node, programs.ports)
                lab.kernel[node.node].send(apply.queues_anew(node, programs.fds, _with_queues(node)))
    return [_NO_PROGRAMS]


def _with_queues(node: NodePlan) -> set[str]:
    return {item.device for item in node.qdiscs}


def _restart_routers(lab: RunningLab) -> list[str]:
    """Start the routing daemons of the switches that lack one, and wait for BGP. Returns the dead ones."""
    found = state.require_up(lab.name)
    dead = frr.dead(lab.name, found.routers)
    if dead:
        switches = {text.split()[0] for text in dead}
        frr.stop(lab.name, {switch: found.routers[switch] for switch in switches})
        found.routers |= frr.start(lab.clos, found.directory, lambda done, of: None, switches)
        found.save()
    frr.wait_until_converged(lab.clos, lab.kernel, lambda done, of: None)
    return dead


def restart_agents(name: str, hosts: Iterable[str]) -> None:
    """Start the agents of these hosts, where none answers, and record them. Raises AgentError."""
    found = state.require_up(name)
    missing = [host for host in hosts if not _answers(found, host)]
    if not missing:
        return
    with open_lab(name) as lab, agents.Launcher(name) as launcher:
        found.agents |= launcher.start(lab.clos, found.directory, missing)
        with lab.agents(missing) as started:
            agents.begin_probing(started, lab.spec)
    found.save()


def _listens(lab: RunningLab, host: str) -> bool:
    """Does the agent hold its socket? One that is paused does; one that is about to end has let go of it."""
    with lab.agent(host) as client:
        try:
            os.close(client.open_pidfd())
        except (agents.AgentError, ProcessLookupError):
            return False
    return True


def _answers(found: state.LabState, host: str) -> bool:
    try:
        with agents.AgentClient(agents.socket_path(found.directory, host)) as client:
            client.call("hello")
    except agents.AgentError:
        return False
    return True


def _refuse_ruins(lab: RunningLab) -> None:
    there = netns.names()
    gone = [node.namespace for node in lab.plan.nodes.values() if node.namespace not in there]
    if not gone:
        gone = [
            f"{node.node}'s {item.device}"
            for node in lab.plan.nodes.values()
            for item in _missing_interfaces(lab, node)
        ]
    if gone:
        more = f" (and {len(gone) - 1} more)" if gone[1:] else ""
        raise InvalidRunError(f"{gone[0]} is gone{more}", f"build the lab anew: mrclab down {lab.name}, then up")


def _missing_interfaces(lab: RunningLab, node: NodePlan) -> list[Any]:
    there = {item.device for item in observe.node(lab.kernel, node.node).interfaces}
    return [item for item in node.interfaces if item.device not in there]


def _mend(
    lab: RunningLab, node: NodePlan, wrong: Collection[observe.Difference], program_fds: Mapping[str, int]
) -> None:
    """Put back what a node lacks, section by section; what the kernel refuses stays a difference."""
    sections = {item.section for item in wrong if item.reason != _UNEXPECTED}
    if "sysctls" in sections:
        netns.write_sysctls(node.namespace, node.sysctls)
    if sections & _REPLACED:
        lab.kernel[node.node].send(apply.node_requests(node))
    if "ports" in sections:
        apply.set_ports(node, lab.port_map)
    if sections & _QUEUES or "filters" in sections:
        devices = {item.device for item in wrong if item.section in _QUEUES and item.reason != _UNEXPECTED}
        lab.kernel[node.node].send(apply.queues_anew(node, program_fds, devices))
