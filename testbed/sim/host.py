"""A host in virtual time: drives `agents.nic.Nic` by the rules of `agents.transport`, as the daemon does for real.

A host may also stall, as a process does that gets no CPU: what arrives waits, timers come late, and when it goes
on it takes in what has arrived before it looks at its timers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from agents.nic import Nic
from agents.transport import Datagram, Event
from testbed.sim.events import EventList
from testbed.sim.memory import MemoryWatch
from testbed.sim.network import SimNetwork
from testbed.topology.sizes import ETHERNET_HEADER_BYTES

PORT_QUEUE_BYTES = 2 * 4400  # back-pressure on the kernel lab holds a NIC's queue to about two packets
_MAX_WAKES_AT_ONE_TIME = 1000

_FOREVER_NS = 1 << 63


class StuckTimer(AssertionError):
    """The NIC or a workload asks again and again to be woken at a time that has come."""


class Application(Protocol):
    """What lives above the NIC, as `agents.agent.Agent` does."""

    def on_event(self, event: Event, now: int) -> None: ...
    def on_carrier(self, port: int, up: bool, now: int) -> None: ...
    def next_timer(self) -> int | None: ...
    def handle_timer(self, now: int) -> None: ...


class SimHost:
    """A NIC plugged into the network, with what lives on it.

    `listeners` are called with every event it gives; `watches` see every packet that it takes.
    """

    def __init__(
        self, host: int, nic: Nic, network: SimNetwork, events: EventList, application: Application | None = None
    ) -> None:
        """`host`: its number in the Clos, where its links are."""
        self.host = host
        self.nic = nic
        self.listeners: list[Callable[[Event], None]] = []
        self.watches: list[MemoryWatch] = []
        self._application = application
        self._network = network
        self._uplinks = [network.uplink(host, port) for port in range(nic.config.planes)]
        self._events = events
        self._kept: dict[int, Datagram] = {}
        self._wake_at: int | None = None
        self._stalled_until = 0
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._unseen_carrier: dict[int, bool] = {}  # port -> its latest state
        self._wakes = 0
        self._last_wake = -1
        network.attach(host, self._receive, self._carrier)

    def stall(self, for_ns: int) -> None:
        """No CPU for this host for so long: it neither receives nor sends, and sees no timer and no carrier."""
        self._stalled_until = max(self._stalled_until, self._events.now + for_ns)
        self._events.at(self._stalled_until, self._resume)

    def pause(self) -> None:
        """No CPU until `go_on`."""
        self._stalled_until = _FOREVER_NS

    def go_on(self) -> None:
        """The pause is over."""
        if self._stalled_until == _FOREVER_NS:
            self._stalled_until = 0
            self._resume()

    def settle(self) -> None:
        """After anything happened to the NIC: take its events, send what it has, note its next timer."""
        if self._is_stalled():
            return
        self._take_events()
        while self._send_all() and self._take_events():
            pass  # sending may have told of something, and the application may have answered that
        self._note_timer()

    def _take_events(self) -> bool:
        events = list(self.nic.events())
        for event in events:
            for listen in self.listeners:
                listen(event)
            if self._application is not None:
                self._application.on_event(event, self._events.now)
        return bool(events)

    def _send_all(self) -> bool:
        """Whether there was anything to send."""
        sent = False
        for datagram in self.nic.datagrams_to_send(self._events.now):
            self._send(datagram)
            sent = True
        return sent

    def _is_stalled(self) -> bool:
        return self._events.now < self._stalled_until

    def _resume(self) -> None:
        if self._is_stalled():
            return
        while self._waiting:
            port, data = self._waiting.popleft()
            self._take(port, data)
        for port, up in self._unseen_carrier.items():
            self._see_carrier(port, up)
        self._unseen_carrier.clear()
        for port in list(self._kept):
            self._space(port)
        self._wake()

    def _receive(self, port: int, data: bytes) -> None:
        if self._is_stalled():
            self._waiting.append((port, data))
            return
        self._take(port, data)
        self.settle()

    def _take(self, port: int, data: bytes) -> None:
        if not self.watches:
            self.nic.receive(port, data, self._events.now)
            return
        receive = partial(self.nic.receive, port, data, self._events.now)
        for watch in self.watches:
            receive = partial(watch.take, data, receive)
        receive()

    def _carrier(self, port: int, up: bool) -> None:
        if self._is_stalled():
            self._unseen_carrier[port] = up
            return
        self._see_carrier(port, up)
        self.settle()

    def _see_carrier(self, port: int, up: bool) -> None:
        self.nic.set_port_up(port, up, self._events.now)
        if self._application is not None:
            self._application.on_carrier(port, up, self._events.now)

    def _send(self, datagram: Datagram) -> None:
        data = b"".join(datagram.buffers)
        port = datagram.port
        if not datagram.control:
            size_bytes = len(data) + ETHERNET_HEADER_BYTES
            if not self._uplinks[port].when_room(size_bytes, PORT_QUEUE_BYTES, self._space, port):
                assert port not in self._kept, "a datagram for a port that is not ready"
                self._kept[port] = datagram
                self.nic.set_port_ready(port, False)
                return
        self._network.send(self.host, port, data)

    def _space(self, port: int) -> None:
        if port not in self._kept or self._is_stalled():
            return
        datagram = self._kept.pop(port)
        self._send(datagram)
        if port not in self._kept:
            self.nic.set_port_ready(port, True)
            self.settle()

    def _next_timer(self) -> int | None:
        timer = self.nic.next_timer()
        other = None if self._application is None else self._application.next_timer()
        if timer is None or other is None:
            return other if timer is None else timer
        return min(timer, other)

    def _note_timer(self) -> None:
        due = self._next_timer()
        if due is None:
            self._wake_at = None
            return
        due = max(due, self._events.now)
        if due != self._wake_at:
            self._wake_at = due
            self._events.at(due, self._timer, due)

    def _timer(self, due: int) -> None:
        if due == self._wake_at and not self._is_stalled():
            self._wake_at = None
            self._wake()

    def _wake(self) -> None:
        now = self._events.now
        self._wakes = self._wakes + 1 if now == self._last_wake else 0
        self._last_wake = now
        if self._wakes > _MAX_WAKES_AT_ONE_TIME:
            raise StuckTimer(f"the next timer stays at {self._next_timer()} ns, now is {now} ns")
        due = self.nic.next_timer()
        if due is not None and due <= now:
            self.nic.handle_timer(now)
        if self._application is not None:
            due = self._application.next_timer()
            if due is not None and due <= now:
                self._application.handle_timer(now)
        self.settle()
