"""The sending half of a RoCE queue pair: WRITEs in order, paced by DCQCN, with go-back-N (IBTA volume 1, 9.7).

A NAK for a sequence error or a timeout sends everything again from the oldest packet that is not acknowledged. Each
such try without progress in between counts; after `retry_count` of them the next one is the queue pair's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agents.message import Message
from agents.roce.config import RoceConfig
from agents.roce.dcqcn import ReactionPoint
from agents.transport import Datagram, Event, PacketLost, QpCounters, SendCompleted, Write
from agents.wire import dscp, frame, headers, psn
from agents.wire import ev as ev_format
from agents.wire.frame import PathTemplate
from agents.wire.headers import TransportAck

_NS_BITS = 8 * 10**9  # ns a byte takes at 1 bit/s
_MAX_UNACKNOWLEDGED = 1 << 22  # packets: PSNs stay comparable

_FATAL = {
    headers.AETH_NAK_INVALID_REQUEST: "the peer refused a packet: an invalid request",
    headers.AETH_NAK_REMOTE_ACCESS_ERROR: "the peer refused a packet: no such memory, or no right to write there",
}
_NAKS = {headers.AETH_NAK_SEQUENCE_ERROR, *_FATAL}
_KIND_SHIFT = 5  # above it: 0 = ACK


class Requester:
    """Sends; all times in ns, PSNs unbounded. `failed` says why it has stopped for good, once it has."""

    def __init__(
        self,
        qpn: int,
        start_psn: int,
        mtu: int,
        config: RoceConfig,
        path: PathTemplate,
        counters: QpCounters,
        emit: Callable[[Event], None],
    ) -> None:
        """`mtu`: payload bytes of a full packet."""
        self.failed: str | None = None
        self.rate = ReactionPoint(config.parameters)
        self._qpn = qpn
        self._mtu = mtu
        self._config = config
        self._path = path
        self._port = ev_format.plane_of(path.ev)
        self._counters = counters
        self._emit = emit
        self._remote_qpn = 0
        self._messages: deque[Message] = deque()  # not wholly acknowledged
        self._current = 0  # the one in `_messages` that `_next_psn` is in
        self._una = start_psn  # the oldest packet that is not acknowledged
        self._next_psn = start_psn
        self._fresh_psn = start_psn  # the first that was never sent
        self._end_psn = start_psn  # behind the last that is posted
        self._sent_ns: deque[int] = deque()  # of the packets from `_una` to `_next_psn`
        self._retries = 0  # since the last progress
        self._deadline_ns: int | None = None
        self._paced_from_ns = 0  # when the last packet began ...
        self._paced_bytes = 0  # ... and what it takes up of the rate
        self._port_busy = False  # a packet waits for the port, not for the clock

    def connect(self, remote_qpn: int) -> None:
        """From now on packets can go."""
        self._remote_qpn = remote_qpn

    def post(self, write: Write) -> None:
        """Queue a WRITE."""
        message = Message(write, self._end_psn, self._mtu, 0, 0)
        self._end_psn += message.packets
        self._messages.append(message)

    @property
    def idle(self) -> bool:
        """Everything that was posted is acknowledged."""
        return not self._messages

    def on_ack(self, number: int, body: TransportAck, now: int) -> bool:
        """Take an ACK or a NAK in; False when it speaks of packets that were never sent, or is of no known kind."""
        acked = psn.unwrap(number, self._una)
        if body.syndrome in _NAKS:
            acked -= 1  # everything before the PSN of a NAK has arrived
        elif body.syndrome >> _KIND_SHIFT:
            return False
        if acked >= self._fresh_psn:
            return False
        self._counters.sacks_received += 1
        self._acknowledge(acked, now)
        if body.syndrome in _FATAL:
            self.failed = _FATAL[body.syndrome]
        elif body.syndrome in _NAKS and acked + 1 == self._una:  # an older one says nothing any more
            self._go_back("out-of-sequence", now)
        return True

    def on_cnp(self, now: int) -> None:
        """The receiver reports congestion."""
        self._counters.cnps_received += 1
        self.rate.on_cnp(now)

    def poll(self, now: int, ready: int) -> Datagram | None:
        """The next packet if its time has come and its port is in the bit mask `ready`, or None."""
        self._port_busy = not ready >> self._port & 1
        if self._port_busy or not self._may_send():
            return None
        self.rate.advance(now)
        if now < self._paced_until_ns():
            return None
        return self._send(now)

    def next_timer(self) -> int | None:
        """When `handle_timer` wants to be called next."""
        due = self._deadline_ns
        if self._may_send() and not self._port_busy:
            paced_ns = self._paced_until_ns()
            increase_ns = self.rate.next_timer()
            if increase_ns is not None:
                paced_ns = min(paced_ns, increase_ns)
            due = paced_ns if due is None else min(due, paced_ns)
        return due

    def handle_timer(self, now: int) -> None:
        """Do what is due."""
        self.rate.advance(now)
        if self._deadline_ns is not None and now >= self._deadline_ns:
            self._go_back("timeout", now)

    # Sending

    def _may_send(self) -> bool:
        return self._next_psn < self._end_psn and self._next_psn - self._una < _MAX_UNACKNOWLEDGED

    def _paced_until_ns(self) -> int:
        return self._paced_from_ns + int(self._paced_bytes * _NS_BITS / self.rate.rate_bps)

    def _send(self, now: int) -> Datagram:
        number = self._next_psn
        message = self._messages[self._current]
        payload, _ = message.payload(number)
        write, first, last = message.write, number == message.first_psn, number == message.last_psn
        self._next_psn += 1
        if last:
            self._current += 1
        counters = self._counters
        counters.packets_sent += 1
        if number < self._fresh_psn:
            counters.packets_retransmitted += 1
        else:
            self._fresh_psn = self._next_psn
        self._sent_ns.append(now)
        if self._deadline_ns is None:
            self._start_timer(now)
        buffers = frame.rc_write(
            self._path,
            dscp=dscp.NO_TRIM,
            dest_qp=self._remote_qpn,
            psn=number & psn.MASK,
            opcode=headers.rc_opcode(message.opcode(number)),
            reth=(write.address, write.rkey, message.size) if first else None,
            payload=payload,
            immediate=write.immediate if last else None,
            ack_request=last or number % self._config.ack_interval_packets == 0,
        )
        size = sum(map(len, buffers))
        # Who was held up, by the port or by a late timer, catches up by one packet at most.
        self._paced_from_ns = max(now - int(size * _NS_BITS / self.rate.rate_bps), self._paced_until_ns())
        self._paced_bytes = size
        self.rate.on_sent(size)
        return Datagram(self._port, False, buffers)

    # Progress and its absence

    def _acknowledge(self, acked: int, now: int) -> None:
        if acked < self._una:
            return
        arrived = acked + 1 - self._una
        self._una = acked + 1
        self._retries = 0
        for _ in range(min(arrived, len(self._sent_ns))):
            self._sent_ns.popleft()
        messages = self._messages
        while messages and messages[0].last_psn < self._una:
            message = messages.popleft()
            self._current = max(0, self._current - 1)
            self._counters.bytes_acked += message.size
            self._emit(SendCompleted(self._qpn, now, message.write.wr_id))
        self._next_psn = max(self._next_psn, self._una)  # some had arrived before they could go again
        self._deadline_ns = None
        if self._next_psn > self._una:
            self._start_timer(now)

    def _start_timer(self, now: int) -> None:
        timeout_ns = self._config.timeout_ns
        self._deadline_ns = None if timeout_ns is None else now + timeout_ns

    def _go_back(self, cause: str, now: int) -> None:
        if self._retries >= self._config.retry_count:
            self.failed = f"retries exhausted: {self._retries} tries without progress, the last for {cause}"
            return
        self._retries += 1
        self._counters.packets_lost += 1
        sent_ns = self._sent_ns[0] if self._sent_ns else now
        self._emit(PacketLost(self._qpn, now, self._una & psn.MASK, self._path.ev, sent_ns, cause))
        self._next_psn = self._una
        self._current = 0
        self._sent_ns.clear()
        self._deadline_ns = None
