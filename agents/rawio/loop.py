"""The event loop: pumps a sans-IO NIC (the rules are in `agents.transport`) with packets, carrier and time.

One thread and one epoll. A turn takes in what has arrived, looks at the carriers, handles what is due, hands the events
to the application, and sends. Two orders matter:

- Received packets go before timers. A process that was kept waiting for the CPU finds its timers overdue and the
  answers to them in its sockets; it must see the answers first, or it would take its own delay for a loss.
- Events go before sending. A receiver has checked a message before the acknowledgement that lets the sender use that
  memory again is out.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.rawio.batch import Inbox
from agents.rawio.carrier import CarrierMonitor
from agents.rawio.port import SENT, Port, Sent
from agents.rawio.waiter import Waiter
from agents.transport import Datagram, Event

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000

LATE_NS = 5 * _NS_PER_MS  # a wake-up later than this counts as late
# Between looks at the carriers: when there is a turn anyway; when the process is woken up for it; and that when no
# packet has come or gone for `_IDLE_AFTER_NS`, or none but self-probes can, since a lab has many agents and nothing to
# lose then: the turn in which the first packet is sent looks before it sends.
CARRIER_LOOK_NS = 2 * _NS_PER_MS
CARRIER_BUSY_NS = 3 * _NS_PER_MS
CARRIER_IDLE_NS = 100 * _NS_PER_MS
_IDLE_AFTER_NS = 200 * _NS_PER_MS
_HEARD_NS = 1 * _NS_PER_MS  # a port on which a packet came so lately has carrier, and is not looked at
_QUEUE_RETRY_NS = 1 * _NS_PER_MS  # a full queue behind the socket does not say when it has room again

_RECEIVE_BATCH = 32  # packets of one port in one turn
_RECEIVE_BATCH_LATE = 2048  # the same after a late wake-up: all there is, within reason
_SEND_BATCH = 64
_LARGEST_PACKET_BYTES = 16 << 10


class Nic(Protocol):
    """What the loop needs of `agents.nic.Nic`."""

    @property
    def idle(self) -> bool: ...
    def receive(self, port: int, data: memoryview, now: int) -> None: ...
    def set_port_ready(self, port: int, ready: bool) -> None: ...
    def set_port_up(self, port: int, up: bool, now: int) -> None: ...
    def next_timer(self) -> int | None: ...
    def handle_timer(self, now: int) -> None: ...
    def events(self) -> Iterable[Event]: ...
    def datagrams_to_send(self, now: int) -> Iterable[Datagram]: ...


class Application(Protocol):
    """What lives above the NIC in the same process."""

    def on_event(self, event: Event, now: int) -> None: ...
    def on_carrier(self, port: int, up: bool, now: int) -> None: ...
    def next_timer(self) -> int | None: ...
    def handle_timer(self, now: int) -> None: ...


@dataclass(slots=True)
class LoopCounters:
    """How well the process keeps up with its own timers."""

    turns: int = 0
    late_timers: int = 0
    worst_late_ns: int = 0


# The clock of the agents: CLOCK_MONOTONIC, which all namespaces of a machine share.
now_ns = time.monotonic_ns


class Loop:
    """Drives `nic` over `ports` (port number = index), and `application` with what the NIC reports."""

    def __init__(self, nic: Nic, ports: Sequence[Port], application: Application, moderation_ns: int = 0) -> None:
        """`moderation_ns`: turns are at least so far apart, as a NIC moderates its interrupts, to do more in each."""
        self.counters = LoopCounters()
        self.carrier = CarrierMonitor([port.spec.ifname for port in ports])
        self._nic = nic
        self._ports = ports
        self._application = application
        self._stopping = False
        self._kept: dict[int, list[Datagram]] = {}  # by port: the datagrams that its data class did not take
        self._retry_ns: dict[int, int] = {}
        self._more_to_send = False
        self._deadline_ns: int | None = None
        self._inbox = Inbox(_RECEIVE_BATCH, _LARGEST_PACKET_BYTES)
        self._heard_ns = [0] * len(ports)  # when packets came last, by port
        self._more_to_receive = False
        self._moderation_ns = moderation_ns
        self._waiter = Waiter()
        self._watched: dict[int, Callable[[int], None]] = {}
        self._receivers = {port.receiver.fileno(): number for number, port in enumerate(ports)}
        self._senders: dict[int, int] = {}  # those that have been full: the kernel has work with each one it watches
        for fd in self._receivers:
            self._waiter.register(fd, select.EPOLLIN)
        now = now_ns()
        self._turn_ns = self._carrier_due_ns = self._carrier_seen_ns = self._last_packet_ns = now
        for number, up in enumerate(self.carrier.up):
            if not up:
                nic.set_port_up(number, False, now)

    def watch(self, fd: int, mask: int, callback: Callable[[int], None]) -> None:
        """Call `callback(epoll events)` in the turns in which `fd` is ready; a second call changes the mask."""
        if fd in self._watched:
            self._waiter.modify(fd, mask)
        else:
            self._waiter.register(fd, mask)
        self._watched[fd] = callback

    def unwatch(self, fd: int) -> None:
        """Forget `fd`; call it before closing it."""
        if self._watched.pop(fd, None) is not None:
            self._waiter.unregister(fd)

    def stop(self) -> None:
        """Let `run` return after the current turn; safe in a signal handler."""
        self._stopping = True

    def run(self) -> None:
        """Turn until `stop`."""
        while not self._stopping:
            self.turn()

    def turn(self) -> None:
        """Wait for something to do, and do it."""
        ready = self._wait()
        self._turn_ns = now = now_ns()
        late = self._note_lateness(now)
        writable: list[int] = []
        for mask, fd in ready:
            if fd in self._receivers:
                if not late:
                    self._receive(self._receivers[fd], _RECEIVE_BATCH)
            elif fd in self._senders:
                writable.append(self._senders[fd])
            elif fd in self._watched:
                self._watched[fd](mask)
        if late:
            for number in range(len(self._ports)):
                self._receive(number, _RECEIVE_BATCH_LATE)
        now = now_ns()
        if now >= self._carrier_due_ns or now - self._carrier_seen_ns >= CARRIER_LOOK_NS:
            self._look_at_carriers(now)
        due = self._nic.next_timer()
        if due is not None and due <= now:
            self._nic.handle_timer(now)
        self._drain_events(now)
        due = self._application.next_timer()
        if due is not None and due <= now:
            self._application.handle_timer(now)
        writable += [number for number, at in self._retry_ns.items() if at <= now]
        for number in writable:
            self._send_kept(number, now)
        self._send(now)

    def close(self) -> None:
        """Close what the loop itself has opened; ports and watched descriptors belong to others."""
        self._waiter.close()
        self.carrier.close()

    def _wait(self) -> list[tuple[int, int]]:
        self.counters.turns += 1
        if self._more_to_send:
            self._deadline_ns = None
            return self._waiter.wait(0)
        wanted = [self._carrier_due_ns, *self._retry_ns.values()]
        wanted += [at for at in (self._nic.next_timer(), self._application.next_timer()) if at is not None]
        self._deadline_ns = min(wanted)
        pause_ns = self._turn_ns + self._moderation_ns - now_ns()
        if pause_ns > 0 and not self._more_to_receive:
            time.sleep(pause_ns / _NS_PER_S)
        self._more_to_receive = False
        return self._waiter.wait(self._deadline_ns - now_ns())

    def _note_lateness(self, now: int) -> bool:
        if self._deadline_ns is None or now - self._deadline_ns <= LATE_NS:
            return False
        self.counters.late_timers += 1
        self.counters.worst_late_ns = max(self.counters.worst_late_ns, now - self._deadline_ns)
        return True

    def _receive(self, number: int, limit: int) -> None:
        port, receive, inbox = self._ports[number], self._nic.receive, self._inbox
        while limit > 0:
            wanted = min(limit, inbox.size)
            packets = port.receive(inbox, wanted)
            if packets:
                self._last_packet_ns = self._heard_ns[number] = now = now_ns()
                for packet in packets:
                    receive(number, packet, now)
            if len(packets) < wanted:
                return
            limit -= wanted
        self._more_to_receive = True

    def _look_at_carriers(self, now: int) -> None:
        heard = [now - at < _HEARD_NS for at in self._heard_ns]
        for number, up in self.carrier.edges(heard):
            self._nic.set_port_up(number, up, now)
            self._application.on_carrier(number, up, now)
        idle = self._nic.idle or now - self._last_packet_ns > _IDLE_AFTER_NS
        self._carrier_seen_ns = now
        self._carrier_due_ns = now + (CARRIER_IDLE_NS if idle else CARRIER_BUSY_NS)

    def _drain_events(self, now: int) -> None:
        for event in list(self._nic.events()):
            self._application.on_event(event, now)

    def _send_kept(self, number: int, now: int) -> None:
        self._retry_ns.pop(number, None)
        kept = self._kept.pop(number, None)
        if kept is None:
            return
        self._last_packet_ns = now
        self._send_singly(number, kept, now)
        if number not in self._kept:
            self._nic.set_port_ready(number, True)

    def _send(self, now: int) -> None:
        budget, ports = _SEND_BATCH, self._ports
        for datagram in self._nic.datagrams_to_send(now):
            port = ports[datagram.port]
            if datagram.control or not port.put(datagram):
                self._send_singly(datagram.port, [datagram], now)
            elif port.batch_is_full:
                self._send_singly(datagram.port, port.send_batch(), now)
            budget -= 1
            if not budget or self._carrier_due_ns == now:
                self._more_to_send = True
                break
        else:
            self._more_to_send = False
        if budget < _SEND_BATCH:
            self._last_packet_ns = now
            for number, port in enumerate(ports):
                self._send_singly(number, port.send_batch(), now)

    def _send_singly(self, number: int, datagrams: list[Datagram], now: int) -> None:
        """Send packets of a port one by one; from the first refused one on they wait, behind what waits already."""
        for at, datagram in enumerate(datagrams):
            if not datagram.control and number in self._kept:
                self._kept[number] += datagrams[at:]
                return
            result = self._ports[number].send(datagram.buffers, datagram.control)
            if result is not SENT and self._is_refused(number, result, now):
                self._kept[number] = datagrams[at:]
                return

    def _is_refused(self, number: int, result: Sent, now: int) -> bool:
        """Whether a datagram that was not sent has to be kept, until the port can take it; if not, it is gone."""
        if result is Sent.LOST:
            # The port may have gone down since it was heard of: look before anything else is sent.
            self._carrier_due_ns, self._heard_ns[number] = now, 0
            return False
        self._nic.set_port_ready(number, False)
        if result is Sent.FULL:
            fd = self._ports[number].data_sender.fileno()
            mask = select.EPOLLOUT | select.EPOLLONESHOT
            if fd in self._senders:
                self._waiter.modify(fd, mask)
            else:
                self._senders[fd] = number
                self._waiter.register(fd, mask)
        else:
            self._retry_ns[number] = now + _QUEUE_RETRY_NS
        return True
