"""A fabric in the kernel without agents: its ports are tested with frames that the test itself sends and takes.

One plane. Hosts h0, h1, ... hang at p0t0-0 in their order, so many at each T0, as the shape says:

    h0 ... -- p0t0-0 -- p0t1-0 -- p0t0-1 -- ...
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Any

from agents.wire import address, frame, headers
from agents.wire import dscp as dscps
from agents.wire import ev as evs
from agents.wire.frame import PathTemplate
from agents.wire.packet import Packet, parse
from testbed.fabric import apply, counters, netns, plan
from testbed.fabric.netlink import Kernel
from testbed.fabric.portmap import PortCounters
from testbed.fabric.ports import Ports
from testbed.fabric.programs import Programs
from testbed.topology import clos
from testbed.topology.clos import Port
from testbed.topology.labspec import LabSpec

ETHERNET_BYTES = 14
PAYLOAD = bytes(4096)
BUFFER_BYTES = 64 << 20
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SLOWEST = "100 Kb/s"  # a packet of 4 KB takes a third of a second: what waits does not go while a test looks

FASTEST_BPS = 10_000_000_000

_numbers = itertools.count()


def send_all(sender: socket.socket, packets: Iterable[bytes]) -> None:
    """Send frames one after the other; one that the port does not take is gone."""
    for packet in packets:
        with contextlib.suppress(OSError):  # ENOBUFS
            sender.send(packet)


def receive_until_quiet(receiver: socket.socket, quiet_s: float = 0.3, within_s: float = 10.0) -> list[Packet]:
    """All packets that come, until none comes for a while; parsed, so that whole ones have a right ICRC."""
    found: list[Packet] = []
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and select.select([receiver], [], [], quiet_s)[0]:
        found.append(parse(receiver.recv(1 << 14)[ETHERNET_BYTES:]))
    return found


class PortBench:
    """The fabric of one lab; a context manager that leaves nothing."""

    def __init__(self, *, hosts: int = 2, t0_groups: int = 1, virtual_queue: bool = False, **settings: Any) -> None:
        """`hosts`: at each T0. `settings`: of the lab file."""
        spec = LabSpec(
            name=f"pt{os.getpid()}-{next(_numbers)}",
            planes=1,
            t0_groups=t0_groups,
            hosts_per_t0=hosts,
            t1s_per_plane=1,
            stands_for={"host": "800 Gb/s", "fabric": "800 Gb/s"},
            **{"rates": {"host": SLOWEST, "fabric": SLOWEST}, **settings},
        )
        self.clos = clos.build(spec)
        self.plan = plan.build(self.clos)
        self._sockets = contextlib.ExitStack()
        try:
            self._make(virtual_queue)
        except BaseException:
            self.close()
            raise

    def _make(self, virtual_queue: bool) -> None:
        def silent(done: int, of: int) -> None:
            pass

        self.kernel = self._sockets.enter_context(Kernel(self.clos.spec.name))
        programs = self._sockets.enter_context(Programs(self.plan.last_ifindex, virtual_queue=virtual_queue))
        self.port_map = programs.ports
        # Before Linux 6.2 ports cannot look at HTB's queue: how far what they compute may be off (test_ports_rate).
        self.depth_error_bytes = 3 * 4_400 if programs.virtual_queue else 0
        self.evs_map_id = programs.map_ids["evs"]
        apply.create_namespaces(self.plan, silent)
        apply.create_links(self.plan, self.kernel)
        apply.configure(self.plan, self.kernel, programs, silent)
        self.ports = Ports(self.kernel, self.plan, lambda: self.port_map)
        for node in self.clos.nodes:
            for port, _ in self.clos.ports(node):
                wait_for(lambda port=port: counters.working(self.kernel, port))

    def close(self) -> None:
        """Take everything away."""
        self._sockets.close()
        apply.remove_namespaces(node.namespace for node in self.plan.nodes.values())

    def __enter__(self) -> PortBench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def port(self, node: str, name: str) -> Port:
        """The port `name` of a node."""
        return next(port for port, _ in self.clos.ports(node) if port.name == name)

    def counters(self, node: str, name: str) -> PortCounters:
        """Its counters."""
        return self.port_map.counters(self.port(node, name).ifindex)

    def change(self, node: str, name: str, **settings: Any) -> None:
        """Change settings of a port."""
        self.ports.change(self.port(node, name), **settings)

    def speed_up(self, node: str, name: str) -> None:
        """Give a port a line and a queue that hold nothing back; what waits there goes."""
        settings = {"rate_bps": FASTEST_BPS, "limit_bytes": BUFFER_BYTES, "ecn": False, "trimming": False}
        self.ports.change(self.port(node, name), **settings)

    def drain(self, node: str, name: str) -> None:
        """Let out what waits at a slow port. HTB first pays its debts of before."""
        self.change(node, name, rate_bps=FASTEST_BPS)
        wait_for(lambda: self.backlog_bytes(node, name) == 0, 20.0)

    def backlog_bytes(self, node: str, name: str) -> int:
        """What waits at a port, by the word of its qdiscs."""
        stats = counters.port_stats(self.kernel, [node])[node, name]
        return stats.data.backlog_bytes + stats.control.backlog_bytes

    def sender(self, host: int) -> socket.socket:
        """A packet socket on a host's port that takes all it is given; closed with the bench."""
        return self._socket(f"h{host}", "eth0", receive=False)

    def receiver(self, host: int) -> socket.socket:
        """A packet socket that takes the MRC packets that come to a host."""
        return self._socket(f"h{host}", "eth0", receive=True)

    def _socket(self, node: str, name: str, *, receive: bool) -> socket.socket:
        namespace = plan.namespace_name(self.clos.spec.name, node)
        made = netns.open_socket(namespace, socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._sockets.callback(made.close)
        made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE if receive else SO_SNDBUFFORCE, BUFFER_BYTES)
        if receive:
            made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        with netns.inside(namespace):
            made.bind((name, 3 if receive else 0))
        return made

    def path(self, src: int, dst: int, spare: int = 0) -> PathTemplate:
        """The way from host to host, with an EV."""
        return PathTemplate(
            src=address.host_address(src),
            dst=address.host_address(dst),
            usids=self.clos.path_usids(src, dst, 0, 0) if self.clos.spec.source_routed else None,
            ev=evs.make(0, 0, spare),
        )

    def _frame(self, src: int, parts: Sequence[Any]) -> bytes:
        nic, link = self.clos.ports(f"h{src}")[0]
        macs = (bytes.fromhex(mac.replace(":", "")) for mac in (self.clos.peer(nic, link).mac, nic.mac))
        return b"".join(macs) + struct.pack("!H", 0x86DD) + b"".join(map(bytes, parts))

    def data(self, src: int, dst: int, psn: int, *, spare: int = 0, payload: bytes = PAYLOAD, **fields: Any) -> bytes:
        """A frame with a WRITE packet."""
        given: dict[str, Any] = {
            "dscp": dscps.TRIMMABLE,
            "opcode": headers.Opcode.WRITE_MIDDLE,
            "tx_timestamp": 1,
            **fields,
        }
        path = self.path(src, dst, spare)
        parts = frame.write(
            path, dest_qp=17, psn=psn, msn=1, rqmsn=0, address=psn << 12, rkey=5, length=1 << 20,
            payload=payload, **given,
        )  # fmt: skip
        return self._frame(src, parts)

    @staticmethod
    def psn_of(received: bytes) -> int:
        """The PSN of a received frame."""
        return parse(received[ETHERNET_BYTES:]).psn

    def sack(self, src: int, dst: int, psn: int) -> bytes:
        """A frame with a SACK."""
        body = headers.Sack(ev=0, cack=psn)
        parts = frame.control(self.path(src, dst), dest_qp=17, psn=psn, opcode=headers.Opcode.SACK, body=body)
        return self._frame(src, parts)

    def probe(self, src: int, dst: int) -> bytes:
        """A frame with a probe of a path."""
        body = headers.EndpointRequest(headers.EndpointOperation.EV_PROBE, 1, self.path(src, dst).ev, 0, 0)
        opcode = headers.Opcode.ENDPOINT_REQUEST
        parts = frame.control(self.path(src, dst), dest_qp=headers.ENDPOINT_QP, psn=1, opcode=opcode, body=body)
        return self._frame(src, parts)


def wait_for(condition: Any, within_s: float = 5.0) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "not so in time"
        time.sleep(0.002)


def within_binomial(hits: int, draws: int, probability: float, sigmas: float = 4.5) -> bool:
    """Is that a likely number of hits? It is not in 7 of a million tries."""
    spread = (draws * probability * (1 - probability)) ** 0.5
    return abs(hits - draws * probability) <= sigmas * spread + 1
