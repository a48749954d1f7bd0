"""What the benches of the packet path share: a lab of their own, flows over it, and a raw sender over the same paths.

The raw sender is what the kernel alone can do: a plain loop that sends frames built beforehand, one for each path of
the flow it stands in for, through the same ports. Nothing takes them at the far end; they are counted at its ports.
While it sends no agents run, so that nothing but the kernel works for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agents.rawio.port import DATA_CLASS, mac_bytes
from agents.wire import address, dscp, frame, headers
from agents.wire import ev as evs
from agents.wire.frame import PathTemplate
from testbed.chaos.traffic import Traffic
from testbed.chaos.workload import Workload
from testbed.fabric import netns, plan
from testbed.lab import agents, lifecycle
from testbed.lab.running import RunningLab, open_lab
from testbed.measure.machine import read as read_machine
from testbed.measure.record import Flow, FlowTotals
from testbed.topology.errors import MrclabError
from testbed.topology.labspec import LabSpec
from testbed.topology.units import format_size

_NS_PER_S = 1_000_000_000
_MESSAGE_QP = 17
_ETHERTYPE_IPV6 = bytes.fromhex("86dd")
_START_IN_NS = 100_000_000
_DRAIN_WITHIN_S = 10.0
_SEED = 1


@contextlib.contextmanager
def lab(spec: LabSpec) -> Iterator[RunningLab]:
    """A lab that lives as long as the context. Raises InputError when one of that name is up already."""
    lifecycle.up(spec, Path(f"bench-{os.getpid()}"))
    try:
        with open_lab(spec.name) as running:
            yield running
    finally:
        lifecycle.down(spec.name)


def unshape(running: RunningLab) -> None:
    """Take queues and programs from all ports of a lab: what is left is bare veths. Not to be undone."""
    for node in running.clos.nodes:
        lines = []
        for port, _ in running.clos.ports(node):
            lines.append(f"qdisc del dev {port.name} root")
        lines.append(f"filter del block {plan.HOOK_BLOCKS['egress']}")
        subprocess.run(
            ["tc", "-n", plan.namespace_name(running.name, node), "-batch", "-"],
            input="\n".join(lines),
            text=True,
            check=True,
            capture_output=True,
        )


class Received:
    """Packets that have come in at ports of hosts."""

    def __init__(self, running: RunningLab, hosts: Sequence[str]) -> None:
        self._namespaces = [plan.namespace_name(running.name, host) for host in hosts]

    def packets(self) -> int:
        """So many so far, of whatever kind."""
        total = 0
        for namespace in self._namespaces:
            with netns.inside(namespace):
                rows = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
            total += sum(int(row.split(":")[1].split()[1]) for row in rows if row.strip().startswith("eth"))
        return total


def frames(running: RunningLab, src: str, dst: str, payload_bytes: int) -> list[tuple[str, bytes]]:
    """(port, Ethernet frame) for each path from host to host: one data packet, as an agent would send it."""
    clos = running.clos
    source, target = clos.nodes[src].index, clos.nodes[dst].index
    built = []
    for t1 in range(clos.spec.t1s_per_plane):
        for port, link in clos.ports(src):
            assert link.plane is not None
            path = PathTemplate(
                src=address.host_address(source),
                dst=address.host_address(target),
                usids=clos.path_usids(source, target, link.plane, t1),
                ev=evs.make(link.plane, t1, 0),
            )
            parts = frame.write(
                path,
                dscp=dscp.TRIMMABLE,
                dest_qp=_MESSAGE_QP,
                psn=0,
                opcode=headers.Opcode.WRITE_MIDDLE,
                msn=1,
                rqmsn=0,
                address=0,
                rkey=0,
                length=payload_bytes,
                payload=bytes(payload_bytes),
                tx_timestamp=0,
            )
            macs = mac_bytes(clos.peer(port, link).mac) + mac_bytes(port.mac)
            built.append((port.name, b"".join((macs, _ETHERTYPE_IPV6, *map(bytes, parts)))))
    return built


def blast(running: RunningLab, pairs: Sequence[tuple[str, str]], payload_bytes: int, seconds: float) -> float:
    """Packets per second that arrive when each pair's source sends as fast as one process can, all at once."""
    received = Received(running, [dst for _, dst in pairs])
    children = [_fork(lambda pair=pair: _send_on(running, pair, payload_bytes)) for pair in pairs]  # type: ignore[misc]
    try:
        time.sleep(min(0.2, seconds / 4))  # until all are at it
        packets, start_ns = received.packets(), time.monotonic_ns()
        time.sleep(seconds)
        packets, elapsed_ns = received.packets() - packets, time.monotonic_ns() - start_ns
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return packets * _NS_PER_S / elapsed_ns


def _fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            work()
        os._exit(1)
    return child


def _send_on(running: RunningLab, pair: tuple[str, str], payload_bytes: int) -> None:
    """Send until killed, or the bench is."""
    bench = os.getppid()
    built = frames(running, *pair, payload_bytes)
    sends = []
    with netns.inside(plan.namespace_name(running.name, pair[0])):
        sockets = {name: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for name in {name for name, _ in built}}
        for name, one in sockets.items():
            one.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, DATA_CLASS)
            one.bind((name, 0))
        sends = [(sockets[name].send, frame_bytes) for name, frame_bytes in built]
    while os.getppid() == bench:
        for send, frame_bytes in sends:
            with contextlib.suppress(OSError):  # ENOBUFS: the queue is full
                send(frame_bytes)


def verified(
    running: RunningLab, pairs: Sequence[tuple[str, str]], message_bytes: int, seconds: float, **options: Any
) -> tuple[float, FlowTotals]:
    """(payload bytes per second, sums over all flows) of flows at full speed, all of their bytes compared.

    The agents have to run. Raises MrclabError when a byte was wrong or the flows do not end.
    """
    workload = Workload.model_validate(
        {"kind": "write_bw", "pairs": list(pairs), "message": format_size(message_bytes), "load": "full"}
    )
    flows = [(workload, Flow(src, dst, 0.0, full=True)) for src, dst in pairs]
    with running.agents() as group:
        traffic = Traffic(group, running.clos)
        traffic.connect(flows, {"transport": "mrc", "options": options})
        start_ns = time.monotonic_ns() + _START_IN_NS
        traffic.start(start_ns, start_ns + round(seconds * _NS_PER_S), _SEED)
        time.sleep(seconds + _START_IN_NS / _NS_PER_S)
        deadline = time.monotonic() + _DRAIN_WITHIN_S
        while not traffic.drained():
            if time.monotonic() > deadline:
                raise MrclabError(f"the flows did not end within {_DRAIN_WITHIN_S:.0f} s", "is the machine very busy?")
            time.sleep(0.01)
        collected = {host: answer["totals"] for host, answer in group.call("collect", limit=0).items()}
        by_flow = traffic.totals(collected).values()
        reports = [one for answer in group.call("workload-status").values() for one in answer["workloads"]]
        traffic.disconnect()
    first = min(one["first_message_ns"] for one in reports if one["role"] == "receive")
    last = max(one["last_message_ns"] for one in reports if one["role"] == "receive")
    numbers = [name for name, value in asdict(FlowTotals()).items() if isinstance(value, int)]
    totals = FlowTotals(**{name: sum(getattr(one, name) for one in by_flow) for name in numbers})
    if totals.bytes_wrong or totals.bytes_delivered != totals.bytes_sent:
        raise MrclabError(
            f"{totals.bytes_wrong} bytes were wrong, {totals.bytes_sent - totals.bytes_delivered} not delivered"
        )
    return totals.bytes_delivered * _NS_PER_S / (last - first), totals


@contextlib.contextmanager
def without_agents(running: RunningLab) -> Iterator[None]:
    """No agents run inside the context; afterwards there are new ones."""
    agents.stop(running.dir, running.hosts)
    try:
        yield
    finally:
        with agents.Launcher(running.name) as launcher:
            launcher.start(running.clos, running.dir)


class SoftnetDrops:
    """Packets that the kernel's receive path has dropped since this was made."""

    def __init__(self) -> None:
        self._before = read_machine()

    def count(self) -> int:
        """So many."""
        return read_machine().drops_since(self._before)
