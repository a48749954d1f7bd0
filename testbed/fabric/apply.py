"""Plan -> kernel: namespaces, links and everything in them, batch by batch.

The caller records what is made before it is made (testbed.lab.state) and removes it; nothing is undone here.
`node_requests` is also what repairs a node or a port, because everything but qdiscs is created-or-replaced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping

from testbed.fabric import messages, netns
from testbed.fabric.netlink import Kernel, Request
from testbed.fabric.objects import FabricPlan, NodePlan
from testbed.fabric.portmap import PortMap
from testbed.fabric.programs import Programs

Progress = Callable[[int, int], None]  # (done, of)


def create_namespaces(plan: FabricPlan, progress: Progress) -> None:
    """Make the namespace of every node. Raises FileExistsError when one is there already."""
    for done, node in enumerate(plan.nodes.values(), start=1):
        netns.create(node.namespace, node.sysctls)
        progress(done, len(plan.nodes))


def create_links(plan: FabricPlan, kernel: Kernel) -> None:
    """Make all veth pairs, each with both ends in their namespaces at once; all still down."""
    with _namespace_fds(plan) as fds:
        by_ifindex = {
            interface.ifindex: (node.node, interface) for node in plan.nodes.values() for interface in node.interfaces
        }
        pairs = []
        for name, near in by_ifindex.values():
            if near.peer_ifindex is not None and near.ifindex < near.peer_ifindex:
                far_name, far = by_ifindex[near.peer_ifindex]
                pairs.append(messages.veth_pair(near, fds[name], far, fds[far_name]))
        kernel[next(iter(plan.nodes))].send(pairs)


@contextlib.contextmanager
def _namespace_fds(plan: FabricPlan) -> Iterator[dict[str, int]]:
    fds: dict[str, int] = {}
    try:
        for node in plan.nodes.values():
            fds[node.node] = os.open(netns.path_of(node.namespace), os.O_RDONLY | os.O_CLOEXEC)
        yield fds
    finally:
        for fd in fds.values():
            os.close(fd)


def configure(plan: FabricPlan, kernel: Kernel, programs: Programs, progress: Progress) -> None:
    """Queues and the port map on all nodes; then programs, devices up, neighbours, addresses, routes and SIDs.

    In two rounds, because a program that follows its hook at once has to wait until all CPUs have seen the hook.
    """
    for node in plan.nodes.values():
        set_ports(node, programs.ports)
        kernel[node.node].send(queue_requests(node))
    for done, node in enumerate(plan.nodes.values(), start=1):
        kernel[node.node].send([*program_requests(node, programs.fds), *node_requests(node)])
        progress(done, len(plan.nodes))


def set_ports(node: NodePlan, ports: PortMap) -> None:
    """What the ports of a node do with packets."""
    index = _ifindexes(node)
    for item in node.ports or ():
        ports.set(index[item.device], item)


def queue_requests(node: NodePlan, devices: Container[str] | None = None) -> list[Request]:
    """The qdiscs and classes of a node; HTB's root comes before its classes, these before their leaves.

    For all devices, or some.
    """
    index = {device: ifindex for device, ifindex in _ifindexes(node).items() if devices is None or device in devices}
    qdiscs = [item for item in node.qdiscs if item.device in index]
    roots = [item for item in qdiscs if item.kind in ("htb", "clsact")]
    leaves = [item for item in qdiscs if item.kind in ("bfifo", "netem")]
    classes = [item for item in node.classes if item.device in index]
    return [
        *(messages.qdisc(item, index[item.device]) for item in roots),
        *(messages.htb_class(item, index[item.device]) for item in classes),
        *(messages.qdisc(item, index[item.device]) for item in leaves),
    ]


def program_requests(node: NodePlan, program_fds: Mapping[str, int]) -> list[Request]:
    """The programs of a node. `program_fds`: what to attach them by, by name. The port map has to be set before."""
    return [messages.program_filter(item, program_fds[item.program]) for item in node.filters]


def queues_anew(node: NodePlan, program_fds: Mapping[str, int], devices: Collection[str]) -> list[Request]:
    """The queues of some devices whatever they have now, with which goes what waits there; and the node's programs."""
    index = _ifindexes(node)
    roots = {(item.device, item.parent) for item in node.qdiscs if item.kind in ("htb", "clsact")}
    gone = [messages.no_qdisc(parent, device, index[device]) for device, parent in roots if device in devices]
    return [*gone, *queue_requests(node, devices), *program_requests(node, program_fds)]


def node_requests(node: NodePlan, devices: Iterable[str] | None = None) -> list[Request]:
    """Devices up with all that `down` takes from them; for all devices of the node, or some."""
    index = _ifindexes(node)
    chosen = set(index) | {""} if devices is None else set(devices)
    return [
        *(
            messages.set_up(item.ifindex, item.up, f"device {item.device} up")
            for item in node.interfaces
            if item.device in chosen
        ),
        *(messages.neighbour(item, index[item.device]) for item in node.neighbours if item.device in chosen),
        *(messages.address(item, index[item.device]) for item in node.addresses if item.device in chosen),
        *(messages.route(item, index.get(item.device)) for item in node.routes if item.device in chosen),
        *(messages.hop(item, index[item.device]) for item in node.hops if item.device in chosen),
        *(messages.sid(item, index[item.device]) for item in node.sids if item.device in chosen),
    ]


def _ifindexes(node: NodePlan) -> dict[str, int]:
    return {item.device: item.ifindex for item in node.interfaces}


def remove_namespaces(names: Iterable[str]) -> None:
    """Remove namespaces by name; veths and everything else in them go with them."""
    for name in names:
        netns.remove(name)
