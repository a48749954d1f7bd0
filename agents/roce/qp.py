"""A RoCE queue pair: joins the sending and the receiving half behind the common interface.

All its packets take one path: that of the EV it was made with, whose UDP source port is also what a hashing fabric
goes by. When the path is gone the retries run out, and that is its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from agents.memory import MemoryTable
from agents.roce.config import RoceConfig
from agents.roce.requester import Requester
from agents.roce.responder import Responder
from agents.transport import Datagram, Event, EvInfo, QpCounters, QpFailed, QpStateError, QueuePair, Write
from agents.wire import ev as ev_format
from agents.wire import frame, psn
from agents.wire.frame import PathTemplate
from agents.wire.headers import Cnp, Opcode, TransportAck
from agents.wire.packet import Packet, RcWrite


class RoceQueuePair(QueuePair):
    """One end of a RoCE connection. Made by the NIC, which has to `connect` it before WRITEs are posted."""

    def __init__(
        self,
        qpn: int,
        peer_host: int,
        path: PathTemplate,
        config: RoceConfig,
        *,
        payload_mtu: int,
        planes: int,
        memory: MemoryTable,
        rng: Random,
    ) -> None:
        """`path`: the way to the peer, for data and for acknowledgements."""
        self.qpn = qpn
        self.config = config
        self.peer_host = peer_host
        self.remote_qpn = None
        self.start_psn = rng.randrange(psn.MODULUS) if config.start_psn is None else config.start_psn
        self.counters = QpCounters()
        self.refused: Counter[str] = Counter()
        self._path = path
        self._port = ev_format.plane_of(path.ev)
        self._events: list[Event] = []
        self._failed = False
        self._requester = Requester(qpn, self.start_psn, payload_mtu, config, path, self.counters, self._events.append)
        self._responder = Responder(
            qpn, config.parameters, memory, planes, self.counters, self.refused, self._events.append
        )
        self.bytes_received_by_port = self._responder.bytes_by_port

    def connect(self, remote_qpn: int, remote_psn: int) -> None:
        """See QueuePair."""
        if self.remote_qpn is not None:
            raise QpStateError(f"queue pair {self.qpn} is connected already")
        self.remote_qpn = remote_qpn
        self._requester.connect(remote_qpn)
        self._responder.connect(remote_psn)

    @property
    def idle(self) -> bool:
        """See QueuePair."""
        return self._requester.idle

    @property
    def rate_bps(self) -> float:
        """What DCQCN lets it send at the moment, in bits per second of the packets from the first IPv6 header on."""
        return self._requester.rate.rate_bps

    def ev_map(self) -> list[EvInfo]:
        """See QueuePair: the one path; a hashing fabric may put its uplink elsewhere."""
        ev = self._path.ev
        state = "ASSUMED_BAD" if self._failed else "GOOD"
        return [EvInfo(ev, self._port, ev_format.uplink_of(ev), state, 0.0 if self._failed else 1.0, 0)]

    def ev_counts(self) -> dict[str, int]:
        """See QueuePair."""
        return dict(Counter(info.state for info in self.ev_map()))

    def post(self, write: Write) -> None:
        """See QueuePair."""
        if self.remote_qpn is None or self._failed:
            raise QpStateError(f"queue pair {self.qpn} " + ("has failed" if self._failed else "is not connected"))
        self._requester.post(write)

    def receive(self, port: int, packet: Packet, now: int) -> None:
        """See QueuePair."""
        body = packet.body
        if self.remote_qpn is None:
            self.refused["not-connected"] += 1
        elif isinstance(body, RcWrite):
            self._responder.on_write(port, packet, body, now)
            if self._responder.broken:
                self._fail("the peer sent what cannot be taken", now)
        elif self._failed:
            self.refused["failed"] += 1
        elif isinstance(body, TransportAck) and packet.opcode == Opcode.RC_ACK:
            if not self._requester.on_ack(packet.psn, body, now):
                self.refused["report"] += 1
        elif isinstance(body, Cnp):
            self._requester.on_cnp(now)
        else:
            self.refused["opcode"] += 1
        self._notice_failure(now)

    def poll_transmit(self, now: int, ready_ports: int) -> Datagram | None:
        """See QueuePair. Acknowledgements and CNPs come first, and whatever ports are ready."""
        if self.remote_qpn is None:
            return None
        report = self._responder.poll()
        if report is not None:
            number, body = report
            opcode = Opcode.CNP if isinstance(body, Cnp) else Opcode.RC_ACK
            buffers = frame.control(self._path, dest_qp=self.remote_qpn, psn=number, opcode=opcode, body=body)
            return Datagram(self._port, True, buffers)
        return None if self._failed else self._requester.poll(now, ready_ports)

    def set_port_up(self, port: int, up: bool, now: int) -> None:
        """See QueuePair: there is no other path to go over to."""

    def next_timer(self) -> int | None:
        """See QueuePair."""
        return None if self._failed else self._requester.next_timer()

    def handle_timer(self, now: int) -> None:
        """See QueuePair."""
        if not self._failed:
            self._requester.handle_timer(now)
            self._notice_failure(now)

    def events(self) -> Iterator[Event]:
        """See QueuePair."""
        events = self._events[:]
        self._events.clear()
        return iter(events)

    def _notice_failure(self, now: int) -> None:
        if self._requester.failed is not None:
            self._fail(self._requester.failed, now)

    def _fail(self, why: str, now: int) -> None:
        if not self._failed:
            self._failed = True
            self._events.append(QpFailed(self.qpn, now, why))
