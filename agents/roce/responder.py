"""The receiving half of a RoCE queue pair: packets in order, or not at all (IBTA volume 1, 9.7).

A packet beyond the expected one is dropped, and one NAK says so until the expected PSN moves. What came before is
acknowledged again. An ACK goes out for BTH.A; those that come before the next packet leaves become one. A message's
first packet says where it goes; the ones behind it follow on. A marked packet may cause a CNP (see `dcqcn`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from agents.memory import AccessError, MemoryTable
from agents.roce.dcqcn import DcqcnProfile, NotificationPoint
from agents.transport import Event, ImmediateReceived, QpCounters
from agents.wire import dscp, headers, psn
from agents.wire.headers import (
    AETH_ACK,
    AETH_NAK_INVALID_REQUEST,
    AETH_NAK_REMOTE_ACCESS_ERROR,
    AETH_NAK_SEQUENCE_ERROR,
    Cnp,
    TransportAck,
)
from agents.wire.packet import Packet, RcWrite

Report = tuple[int, TransportAck | Cnp]  # (PSN for the BTH, body)


class _Incoming:
    """The message that is arriving: where its next byte goes."""

    __slots__ = ("address", "arrived", "length", "rkey")

    def __init__(self, address: int, rkey: int, length: int) -> None:
        self.address = address
        self.rkey = rkey
        self.length = length
        self.arrived = 0


class Responder:
    """Receives. After an access error or an impossible packet it takes nothing more (`broken`)."""

    def __init__(
        self,
        qpn: int,
        profile: DcqcnProfile,
        memory: MemoryTable,
        ports: int,
        counters: QpCounters,
        refused: Counter[str],
        emit: Callable[[Event], None],
    ) -> None:
        """`refused` counts what was not taken, by reason."""
        self.bytes_by_port = [0] * ports
        self.broken = False
        self._qpn = qpn
        self._memory = memory
        self._counters = counters
        self._refused = refused
        self._emit = emit
        self._marks = NotificationPoint(profile)
        self._expected = 0
        self._messages = 0  # complete
        self._incoming: _Incoming | None = None
        self._nak_sent = False  # for this expected PSN
        self._ack_owed = False
        self._due: deque[Report] = deque()

    def connect(self, first_psn: int) -> None:
        """The peer's first PSN."""
        self._expected = first_psn

    def on_write(self, port: int, packet: Packet, body: RcWrite, now: int) -> None:
        """Take the packet of a WRITE, if it is the next one."""
        if self.broken:
            self._refused["failed"] += 1
            return
        if packet.ecn == dscp.CE:
            self._counters.packets_marked += 1
            if self._marks.on_mark(now):
                self._counters.cnps_sent += 1
                self._due.append((0, Cnp()))
        ahead = psn.distance(self._expected, packet.psn)
        if ahead > 0:
            self._refused["out-of-sequence"] += 1
            if not self._nak_sent:
                self._nak_sent = True
                self._nak(AETH_NAK_SEQUENCE_ERROR)
        elif ahead < 0:
            self._counters.packets_duplicate += 1
            self._ack_owed = True
        else:
            self._take(port, packet, body, now)

    def poll(self) -> Report | None:
        """The next thing to send back, or None."""
        if self._due:
            return self._due.popleft()
        if self._ack_owed:
            self._ack_owed = False
            self._counters.sacks_sent += 1
            return psn.add(self._expected, -1), TransportAck(self._messages & psn.MASK, AETH_ACK)
        return None

    def _take(self, port: int, packet: Packet, body: RcWrite, now: int) -> None:
        size = len(body.payload)
        message = self._incoming
        if (body.reth is None) == (message is None):
            return self._refuse("sequence", AETH_NAK_INVALID_REQUEST)
        try:
            if body.reth is not None:
                message = _Incoming(*body.reth)
                self._memory.slot(message.rkey, message.address, message.length)  # all of it, or nothing
            assert message is not None
            last = packet.opcode in headers.RC_LAST_OPCODES
            if message.arrived + size > message.length or last != (message.arrived + size == message.length):
                return self._refuse("length", AETH_NAK_INVALID_REQUEST)
            buffer, offset = self._memory.slot(message.rkey, message.address + message.arrived, size)
        except AccessError:
            return self._refuse("access", AETH_NAK_REMOTE_ACCESS_ERROR)
        buffer[offset : offset + size] = body.payload
        message.arrived += size
        self._expected = psn.add(self._expected, 1)
        self._nak_sent = False
        self._counters.packets_received += 1
        self._counters.bytes_received += size
        self.bytes_by_port[port] += size
        self._ack_owed = self._ack_owed or packet.ack_request
        self._incoming = None if last else message
        if last:
            self._messages += 1
            if body.immediate is not None:
                self._emit(ImmediateReceived(self._qpn, now, body.immediate, message.length))
        return None

    def _refuse(self, why: str, syndrome: int) -> None:
        self.broken = True
        self._refused[why] += 1
        self._nak(syndrome)

    def _nak(self, syndrome: int) -> None:
        self._counters.nacks_sent += 1
        self._ack_owed = False  # a NAK acknowledges all before its PSN
        self._due.append((self._expected, TransportAck(self._messages & psn.MASK, syndrome)))
