"""The sending half of an MRC queue pair: cuts WRITEs into packets, sprays them, sends again what is lost.

Who decides what: `ev_set` the path, `scoreboard` what has arrived, `loss` what is lost by what reports say, `retries`
what is lost because none comes, `probing` when a retired EV is tried again, `congestion` how much may fly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from agents.message import Message
from agents.mrc import congestion
from agents.mrc.config import MrcConfig
from agents.mrc.congestion.base import Fabric
from agents.mrc.doubts import Doubts
from agents.mrc.ev_set import Ev, EvSet
from agents.mrc.ev_state import Cause
from agents.mrc.loss import LossDetector
from agents.mrc.retries import RetryTimer
from agents.mrc.scoreboard import ARRIVED, FLYING, LOST, Scoreboard, Sent
from agents.transport import Datagram, Event, PacketLost, QpCounters, SendCompleted, Write
from agents.wire import dscp, frame, psn
from agents.wire.headers import EcnEcho, Nack, NackReason, Opcode, ReliabilityProbe, Sack

_U16: Final = 0xFFFF
_M_CAUSE = {EcnEcho.SKIP_ONCE: Cause.MARKED, EcnEcho.ALWAYS_SKIP: Cause.ALWAYS_SKIP}
_REPORTS_PER_WINDOW: Final = 8  # at least, as far as packets allow
_TRIMMED = {NackReason.TRIMMED, NackReason.TRIMMED_LASTHOP}
_BY_REPORTS = ("overdue", "overtaken")
# The responder could not take the packet, which is no path's fault: it goes again.
_NOT_TAKEN = {
    NackReason.NO_BITMAP,
    NackReason.NO_PKT_BUFFER,
    NackReason.NO_RESOURCE,
    NackReason.PSN_OOR_WINDOW,
}


class Requester:
    """Sends; all times in ns. `failed` says why it has stopped for good, once it has; `refused`: the peer wanted it."""

    def __init__(
        self,
        qpn: int,
        start_psn: int,
        mtu: int,
        config: MrcConfig,
        evs: EvSet,
        planes: int,
        counters: QpCounters,
        emit: Callable[[Event], None],
        suspect_cleared: Callable[[Ev], None],
    ) -> None:
        """`mtu`: payload bytes of a full packet. `suspect_cleared` hears of a retired EV that did deliver after all."""
        self.failed: str | None = None
        self.refused = False
        self._qpn = qpn
        self._config = config
        self._mtu = mtu
        self._evs = evs
        self._planes = planes
        self._counters = counters
        self._emit = emit
        self._suspect_cleared = suspect_cleared
        self._remote_qpn = 0
        self._board = Scoreboard(start_psn, planes)
        self._detector = LossDetector(config, self._board, planes)
        self._timer = RetryTimer(config, self._board, self._detector, planes)
        self._doubts = Doubts()
        self._window = congestion.create(config, Fabric(planes, mtu))
        self._mpr = config.mpr
        self._first_dscp, self._again_dscp = (
            (dscp.TRIMMABLE, dscp.TRIMMABLE_RETX) if config.trimming else (dscp.NO_TRIM, dscp.NO_TRIM)
        )
        self._sampled = -1, -1, 0  # EV, timestamp and round trip of the last packet that a report was caused by
        self._next_psn = start_psn  # the next to be sent for the first time
        self._end_psn = start_psn  # behind the last that is posted
        self._unsent: deque[Message] = deque()  # the first may be sent in part
        self._unfinished: deque[Message] = deque()  # not wholly acknowledged
        self._again: deque[Sent] = deque()  # lost, to be sent again
        self._unjudged: list[tuple[int, int]] = []  # (cumulative ack, first PSN of the bitmap) of reports
        self._judged_at_ns = 0  # as of when they will be judged by
        self._unasked_bytes = 0
        self._messages = 0
        self._immediates = 0
        self._immediates_flying = 0
        self._probe_id = 0
        self._probe: tuple[Ev, int] | None = None  # where and when the last reliability probe went

    def connect(self, remote_qpn: int) -> None:
        """From now on packets can go."""
        self._remote_qpn = remote_qpn

    def post(self, write: Write) -> None:
        """Queue a WRITE."""
        if write.immediate is not None:
            self._immediates += 1
        self._messages += 1
        message = Message(write, self._end_psn, self._mtu, self._messages & _U16, self._immediates & _U16)
        self._end_psn += message.packets
        self._unsent.append(message)
        self._unfinished.append(message)

    @property
    def idle(self) -> bool:
        """Everything that was posted is acknowledged."""
        return not self._unfinished

    # Reports

    def on_sack(self, sack: Sack, now: int) -> bool:
        """Take a report in; False when it speaks of packets that were never sent."""
        board = self._board
        una = board.una
        cack = psn.unwrap(sack.cack, una - 1)
        if cack >= self._next_psn:
            return False
        self._counters.sacks_received += 1
        self._timer.last_report_ns = now
        if sack.mpr and cack + 1 >= una:
            self._mpr = sack.mpr
        base = cack + sack.sack_offset
        trigger = cack + sack.ack_psn_offset if sack.probe_id is None else None
        news = board.acknowledge(cack, base, sack.bitmap)
        if news:
            self._arrived(news, trigger, sack, now)
        doubted = self._doubts.reported(news, trigger, sack)
        if doubted is not None:
            self._was_wrong(doubted, now)
        if self._probe is not None and sack.probe_id == self._probe_id:
            ev, sent_ns = self._probe
            self._probe = None
            self._detector.probe_answered(ev, sent_ns, now)
        if sack.ecn_echo:
            self._echoed(sack, now)
        if cack + 1 >= una:  # an older report than the last one says nothing about what is missing now
            self._unjudged.append((cack, base))
            self._judged_at_ns = now
        while self._unfinished and self._unfinished[0].last_psn < board.una:
            write = self._unfinished.popleft().write
            if write.immediate is not None:
                self._immediates_flying -= 1
            self._emit(SendCompleted(self._qpn, now, write.wr_id))
        if news:
            self._timer.progress(now)
        return True

    def on_nack(self, nack: Nack, now: int) -> bool:
        """Take a refusal in; False for reasons that have no meaning here, and for packets that were never sent."""
        if nack.reason == NackReason.UNEXP_EVENT:
            self.failed = "the peer refused a packet: no such memory, or no right to write there"
            self.refused = True
            return True
        number = psn.unwrap(nack.psn, self._board.una - 1)
        if number >= self._next_psn:
            return False
        if nack.reason in _TRIMMED:
            self._trimmed(number, nack, now)
        elif nack.reason in _NOT_TAKEN:
            record = self._board.latest(number)
            if record is not None and record.fate is FLYING and record.ev.value == nack.ev:
                self._lose(record, "refused", now, blame=False)
        else:
            return False
        return True

    def _trimmed(self, number: int, nack: Nack, now: int) -> None:
        ev = self._evs.get(nack.ev)
        if ev is not None and nack.reason == NackReason.TRIMMED:  # at the last hop it is the receiver that is full
            self._evs.apply(ev, Cause.MARKED, now)
        record = self._board.latest(number)
        if record is None or record.fate is not FLYING or record.ev.value != nack.ev:
            return  # it has gone again already
        self._counters.packets_trimmed += 1
        self._board.lose(record, blame=False)
        self._again.append(record)
        rtt_ns = now - record.sent_ns if record.transmissions == 1 else None
        self._window.on_trimmed(record.size, rtt_ns, in_flight_bytes=self._board.bytes_in_flight, now=now)
        self._timer.progress(now)  # the peer is there, and nothing is lost

    def planes_changed(self, down: int, now: int) -> None:
        """What flies on the planes of this bit mask goes again on others; their EVs are not to blame."""
        for plane in range(self._planes):
            if down >> plane & 1:
                for record in self._board.flying(plane):
                    self._lose(record, "port-down", now, blame=False)

    def _arrived(self, news: list[Sent], trigger: int | None, sack: Sack, now: int) -> None:
        """`trigger`: the PSN that caused the report; with the EV it names one of several transmissions of a packet."""
        detector = self._detector
        size = 0
        sampled_ev, sampled_at, sampled_ns = self._sampled
        # Several reports may be caused by one packet, and only the first brings news of it.
        rtt_ns = sampled_ns if (sampled_ev, sampled_at) == (sack.ev, sack.tx_timestamp) else None
        for record in news:
            size += record.size
            fate, record.fate = record.fate, ARRIVED
            if fate is LOST:  # it had not yet gone again
                if record.blamed:
                    self._doubts.settle(record.psn)
                    self._was_wrong(record.ev, now)
            elif record.transmissions == 1 or (record.psn == trigger and record.ev.value == sack.ev):
                # What flew when the timer expired has arrived some time ago: its report was lost.
                sample_ns = detector.arrived(record, now, record.sent_ns > self._timer.expired_ns)
                if record.psn == trigger and record.transmissions == 1 and sample_ns is not None:
                    rtt_ns = sample_ns
                    self._sampled = sack.ev, sack.tx_timestamp, sample_ns
            elif record.earlier_ev is not None and detector.too_soon(record, now):
                self._doubts.settle(record.psn)
                self._was_wrong(record.earlier_ev, now)
        self._counters.bytes_acked += size
        self._window.on_acked(
            size,
            rtt_ns,
            marked=sack.ecn_echo != EcnEcho.NONE,
            penalty=sack.rcv_cwnd_pen,
            in_flight_bytes=self._board.bytes_in_flight,
            now=now,
        )

    def _was_wrong(self, ev: Ev, now: int) -> None:
        """A packet over `ev` that was taken for lost had arrived: use it again, unless another was lost there."""
        self._detector.was_wrong()
        self._suspect_cleared(ev)
        if not self._doubts.any_on(ev):
            self._evs.apply(ev, Cause.CLEARED, now)

    def judge(self) -> None:
        """Find what is lost by the reports that have come.

        Not with each of them: after this agent was late, one that says that a packet has arrived may lie unread behind
        one from before that, and its lateness is no path's fault.
        """
        for cack, base in self._unjudged:
            for record, cause in self._detector.lost(cack, base):
                self._lose(record, cause, self._judged_at_ns, blame=True)
        self._unjudged.clear()

    def _echoed(self, sack: Sack, now: int) -> None:
        ev = self._evs.get(sack.ev)
        cause = _M_CAUSE.get(EcnEcho(sack.ecn_echo)) if sack.ecn_echo <= EcnEcho.ALWAYS_SKIP else None
        if ev is not None and cause is not None:
            self._evs.apply(ev, cause, now)

    def _lose(self, record: Sent, cause: str, now: int, *, blame: bool) -> None:
        self._board.lose(record, blame=blame)
        self._again.append(record)
        self._counters.packets_lost += 1
        self._window.on_lost(record.size, now)
        event = PacketLost(self._qpn, now, record.psn & psn.MASK, record.ev.value, record.sent_ns, cause)
        if cause in _BY_REPORTS:
            event.rtt_ns = self._detector.expected_ns(record.ev)
            if cause == "overdue":
                event.window_ns = self._detector.window_ns(record.ev)
        self._emit(event)
        if blame and record.transmissions == 1:
            self._doubts.blamed(record)
        else:
            self._doubts.settle(record.psn)  # it went more than once, and which of them arrives is not to be told
        if blame:
            self._evs.apply(record.ev, Cause.LOST, now)

    # Sending

    def poll(self, now: int, ready: int) -> Datagram | None:
        """The next packet on a port of the bit mask `ready`, or None."""
        if self._timer.probe_wanted:
            datagram = self._reliability_probe(now, ready)
            if datagram is not None:
                return datagram
        board = self._board
        again = self._again
        while again and again[0].fate is ARRIVED:
            again.popleft()
        flying = board.bytes_in_flight
        window = self._window.window_bytes
        if again:
            if again[0].psn >= board.una + self._mpr:  # the peer's window has shrunk: what it awaits first goes first
                missing = (record for record in again if record.fate is not ARRIVED)
                again = self._again = deque(sorted(missing, key=lambda record: record.psn))
                if again[0].psn >= board.una + self._mpr:
                    return None
            lost = again[0]
            if flying and flying + lost.size > window:
                return None
            ev = self._evs.draw(ready, now, lost.ev.path)
            if ev is None:
                return None
            again.popleft()
            return self._send(lost.psn, lost.message, ev, now, lost)
        number = self._next_psn
        if number == self._end_psn or number >= board.una + self._mpr:
            return None
        message = self._unsent[0]
        if flying and flying + self._mtu > window:
            return None
        announces = number == message.first_psn and message.write.immediate is not None
        if announces and self._immediates_flying >= self._config.max_wimm:
            return None
        ev = self._evs.draw(ready, now)
        if ev is None:
            return None
        if announces:
            self._immediates_flying += 1
        self._next_psn = number + 1
        if number == message.last_psn:
            self._unsent.popleft()
        return self._send(number, message, ev, now, None)

    def _send(self, number: int, message: Message, ev: Ev, now: int, lost: Sent | None) -> Datagram:
        payload, offset = message.payload(number)
        self._board.sent(number, message, len(payload), ev, now)
        self._counters.packets_sent += 1
        if lost is not None:
            self._counters.packets_retransmitted += 1
        if lost is not None or self._timer.deadline_ns is None:
            self._timer.sent(ev, now, again=lost is not None)
        write = message.write
        assert ev.template is not None
        buffers = frame.write(
            ev.template,
            dscp=self._first_dscp if lost is None else self._again_dscp,
            dest_qp=self._remote_qpn,
            psn=number & psn.MASK,
            opcode=message.opcode(number),
            msn=message.msn,
            rqmsn=message.rqmsn,
            address=write.address + offset,
            rkey=write.rkey,
            length=message.size,
            payload=payload,
            immediate=write.immediate if number == message.last_psn else None,
            tx_timestamp=now // self._config.tick_ns & _U16,
            ack_request=self._wants_report(len(payload)),
            retransmission=lost is not None,
        )
        return Datagram(ev.plane, False, buffers)

    def _wants_report(self, size: int) -> bool:
        """Whether the responder, which reports by bytes, would report too late for a packet of `size`.

        Too late is when nothing follows, or when the window is small: then it asks several times a window, because a
        sender that gets one report for all that it has in flight sends in bursts, and bursts are what is trimmed.
        """
        if self._next_psn == self._end_psn:
            return not self._again
        window = self._window.window_bytes
        if window >= _REPORTS_PER_WINDOW * self._config.sack_threshold_bytes:
            return False
        self._unasked_bytes += size
        if self._unasked_bytes * _REPORTS_PER_WINDOW < window and self._board.bytes_in_flight + self._mtu <= window:
            return False
        self._unasked_bytes = 0
        return True

    def _reliability_probe(self, now: int, ready: int) -> Datagram | None:
        ev = self._evs.draw(ready, now)
        if ev is None:
            return None
        assert ev.template is not None
        self._timer.probe_wanted = False
        self._probe_id = self._probe_id + 1 & _U16
        self._probe = ev, now
        self._counters.probes_sent += 1
        buffers = frame.control(
            ev.template,
            dest_qp=self._remote_qpn,
            psn=self._board.una & psn.MASK,
            opcode=Opcode.RELIABILITY_PROBE,
            body=ReliabilityProbe(self._probe_id, now // self._config.tick_ns & _U16),
            dscp=dscp.NO_TRIM,
        )
        return Datagram(ev.plane, False, buffers)

    # Time

    def next_timer(self) -> int | None:
        """When `handle_timer` wants to be called next."""
        return self._timer.deadline_ns

    def handle_timer(self, now: int) -> None:
        """Do what is due."""
        self.judge()
        for record, blame in self._timer.handle(now):
            self._lose(record, "timeout", now, blame=blame)
        self.failed = self.failed or self._timer.exhausted
