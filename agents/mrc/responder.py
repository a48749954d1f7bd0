"""The receiving half of an MRC queue pair: places every packet at once, whatever the order, and reports by SACK.

When a SACK goes out [MRC 1.0]: enough new bytes, BTH.A, a retransmission, a duplicate, a probe, a congestion mark; and
[ours] when the holes before a BTH.A have filled, so that the end of a burst is reported as soon as it is whole. There
is no timer. A mark is echoed on the very EV that met it; of several on one EV that come in one go, once. A packet that
the fabric trimmed is answered by a NACK at once. It has no ICRC, so nothing else follows from what it says.

A WRITE to where the peer may not write ends the connection, as in RC: from then on nothing is taken, and every packet
is answered with the reason, since the first answer may be lost.

An immediate is handed up when everything before it has arrived, in the order of RQMSN, which counts the WRITEs with
one; until then it is stashed, `max_wimm` of them at most. A number that cannot be is the end of the connection.
Which PSNs it reports: see `arrivals`. Bytes are written exactly once; immediates are handed up in the order of sending.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from agents.memory import AccessError, MemoryTable
from agents.mrc.arrivals import DUPLICATE, NEW, OUTSIDE, Arrivals
from agents.mrc.config import MrcConfig
from agents.transport import Event, ImmediateReceived, QpCounters
from agents.wire import dscp, psn
from agents.wire.headers import EcnEcho, Nack, NackReason, ReliabilityProbe, Sack
from agents.wire.packet import Packet, Write

_U15: Final = 0x7FFF
_U16: Final = 0xFFFF
_UNIT_BITS: Final = 8  # rcvd_bytes counts 256 bytes
_TRIMMED = {dscp.TRIMMED: NackReason.TRIMMED, dscp.TRIMMED_LASTHOP: NackReason.TRIMMED_LASTHOP}


class Responder:
    """Receives."""

    def __init__(
        self,
        qpn: int,
        config: MrcConfig,
        memory: MemoryTable,
        ports: int,
        counters: QpCounters,
        refused: Counter[str],
        emit: Callable[[Event], None],
    ) -> None:
        """`refused` counts what was not taken, by reason."""
        self.bytes_by_port = [0] * ports
        self.failed: str | None = None  # why nothing is taken any more
        self.due = False  # whether `poll` has something
        self._qpn = qpn
        self._config = config
        self._memory = memory
        self._counters = counters
        self._refused = refused
        self._emit = emit
        self._arrivals = Arrivals(0, config.mpr)
        self.penalty = 0  # 128ths by which the sender is to shrink its window
        self._mpr = config.mpr
        self._stash: dict[int, tuple[int, int, int]] = {}  # RQMSN -> (last PSN of its message, immediate, bytes)
        self._rqmsn = 0  # of the last immediate that was handed up
        self._unreported_bytes = 0
        self._owed_psn = -1  # a BTH.A here came before others that it ends
        self._trigger: tuple[int, int, int] | None = None  # (PSN, EV, timestamp) of a SACK that is due
        self._marks: dict[int, tuple[int, int]] = {}  # EV -> (PSN, timestamp) of a congestion mark to echo
        self._probe_id: int | None = None  # the probe that this SACK answers
        self._reports: deque[Sack] = deque()  # of the last trigger, still to go out
        self._nacks: deque[Nack] = deque()

    def connect(self, first_psn: int) -> None:
        """The peer's first PSN."""
        self._arrivals = Arrivals(first_psn, self._mpr)
        self._owed_psn = first_psn - 1

    def set_mpr(self, mpr: int) -> None:
        """Track so many PSNs from now on, and say so."""
        self._mpr = mpr
        self._arrivals.set_mpr(mpr)

    def on_write(self, port: int, packet: Packet, body: Write, now: int) -> None:
        """Place the packet of a WRITE."""
        arrivals = self._arrivals
        number = psn.unwrap(packet.psn, arrivals.cack)
        if self.failed is not None:
            self._refuse("failed", NackReason.UNEXP_EVENT, packet, body)
            return
        if packet.trimmed:
            self._on_trimmed(number, packet, body)
            return
        payload = body.payload
        size = len(payload)
        try:
            buffer, offset = self._memory.slot(body.rkey, body.address, size)
        except AccessError:
            self.failed = "the peer would write where it may not"
            self._refuse("access", NackReason.UNEXP_EVENT, packet, body)
            return
        before = arrivals.cack
        if body.immediate is not None and arrivals.what(number) is NEW:
            refusal = self._cannot_stash(body.rqmsn)
            if refusal is not None:
                if refusal is NackReason.UNEXP_EVENT:
                    self.failed = f"the peer sent an immediate with the number {body.rqmsn}, which cannot be"
                self._refuse("immediate", refusal, packet, body)
                return
        arrival = arrivals.take(number)
        if arrival is OUTSIDE:
            self._refuse("window", NackReason.PSN_OOR_WINDOW, packet, body)
            return
        due = packet.ack_request or packet.retransmission
        if packet.ecn == dscp.CE:
            self._mark(number, packet, body.tx_timestamp or 0)
        if arrival is NEW:
            buffer[offset : offset + size] = payload
            counters = self._counters
            counters.packets_received += 1
            counters.bytes_received += size
            self.bytes_by_port[port] += size
            if body.immediate is not None:
                self._stash[body.rqmsn] = number, body.immediate, body.length
            self._unreported_bytes += size
            cack = arrivals.cack
            if cack != before:
                if self._stash:
                    self._hand_up(cack, now)
                if before < self._owed_psn <= cack:
                    due = True
            if packet.ack_request and number > cack and number > self._owed_psn:
                self._owed_psn = number
            due = due or self._unreported_bytes >= self._config.sack_threshold_bytes
        else:
            self._counters.packets_duplicate += 1
            due = True
        if due:
            self._trigger = number, packet.ev, body.tx_timestamp or 0
            self.due = True

    def _cannot_stash(self, rqmsn: int) -> NackReason | None:
        ahead = rqmsn - self._rqmsn & _U16
        if not 0 < ahead <= _U15 or rqmsn in self._stash:
            return NackReason.UNEXP_EVENT
        return NackReason.NO_RESOURCE if ahead > self._config.max_wimm else None

    def _hand_up(self, cack: int, now: int) -> None:
        while (following := self._stash.get(self._rqmsn + 1 & _U16)) is not None and following[0] <= cack:
            self._rqmsn = self._rqmsn + 1 & _U16
            del self._stash[self._rqmsn]
            self._emit(ImmediateReceived(self._qpn, now, following[1], following[2]))

    def _on_trimmed(self, number: int, packet: Packet, body: Write) -> None:
        arrival = self._arrivals.what(number)
        if arrival is DUPLICATE:
            self._trigger = number, packet.ev, body.tx_timestamp or 0
            self.due = True
        elif arrival is OUTSIDE:
            self._refuse("window", NackReason.PSN_OOR_WINDOW, packet, body)
        else:
            self._refuse("trimmed", _TRIMMED[packet.dscp], packet, body)

    def _mark(self, number: int, packet: Packet, timestamp: int) -> None:
        self._counters.packets_marked += 1
        self._marks[packet.ev] = number, timestamp
        self.due = True

    def on_probe(self, packet: Packet, body: ReliabilityProbe) -> None:
        """Report what the sender asks about."""
        number = psn.unwrap(packet.psn, self._arrivals.cack)
        self._trigger = number, packet.ev, body.tx_timestamp
        if packet.ecn == dscp.CE:
            self._mark(number, packet, body.tx_timestamp)
        self._probe_id = body.probe_id
        self.due = True

    def poll(self, ports_down: int) -> tuple[int, Sack | Nack] | None:
        """(PSN for the BTH, report) to send now, or None; `ports_down` of our own goes into each SACK."""
        if self._nacks:
            nack = self._nacks.popleft()
            self._counters.nacks_sent += 1
            return nack.psn, nack
        if not self._reports:
            if self._marks:
                ev, (number, timestamp) = next(iter(self._marks.items()))
                del self._marks[ev]
                self._write_reports(number, ev, timestamp, EcnEcho.SKIP_ONCE)
            elif self._trigger is not None:
                self._write_reports(*self._trigger, EcnEcho.NONE)
            else:
                self.due = False
                return None
        self._counters.sacks_sent += 1
        sack = self._reports.popleft()
        sack.ports_down = ports_down
        return sack.cack + sack.ack_psn_offset & psn.MASK, sack

    def _write_reports(self, number: int, ev: int, timestamp: int, mark: EcnEcho) -> None:
        """All SACKs that PSN `number` has triggered, as things stand now; the first one answers the probe, if any.

        They all echo the mark: whichever of them gets through, the EV is skipped.
        """
        cack = self._arrivals.cack
        beyond = min(self._arrivals.count_beyond(), _U15)
        received = self._counters.bytes_received >> _UNIT_BITS & psn.MASK
        for offset, bitmap in self._arrivals.report(number):
            sack = Sack(
                ev,
                cack & psn.MASK,
                bitmap,
                offset,
                number - cack,
                self._probe_id,
                mark,
                mpr=self._mpr,
                tx_timestamp=timestamp,
                ooo_count=beyond,
                rcv_cwnd_pen=self.penalty,
                rcvd_bytes_256=received,
            )
            self._reports.append(sack)
            self._probe_id = None
        self._trigger = None
        self._unreported_bytes = 0

    def _refuse(self, why: str, reason: NackReason, packet: Packet, body: Write) -> None:
        self._refused[why] += 1
        self._nacks.append(Nack(reason, packet.psn, packet.ev, tx_timestamp=body.tx_timestamp or 0))
        self.due = True
