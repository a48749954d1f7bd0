"""Endpoint operations of a NIC, on QP 2: EV probes, asked and answered, and Port Status Updates.

An EV probe goes out on the data class, as the packets whose path it tests; the answer comes back on the control class
over the same EV reversed: same plane, same T1. A Port Status Update tells every peer which of our ports are down; it
is numbered, and goes again over another path until the peer confirms it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from agents.mrc.peer import Peer
from agents.transport import Datagram, Event, ProbeAnswered
from agents.wire import dscp, frame
from agents.wire import ev as ev_format
from agents.wire.headers import (
    ENDPOINT_QP,
    EcnEcho,
    EndpointOperation,
    EndpointRequest,
    EndpointResponse,
    Opcode,
)
from agents.wire.packet import Packet

_ID_MASK = 0xFFFF
_PENDING_PROBES = 4096  # older ones are forgotten: their answers do not come any more
_ANSWER_QUEUE = 1024  # a peer that asks faster than a port can answer gets no answer
_SLOWEST_REPEAT = 32  # times the first interval

AnswerHandler = Callable[[int, int, bool, int], None]  # EV, round trip in ns, whether it met congestion marks, now


class _Probe(NamedTuple):
    peer: Peer
    ev: int
    sent_ns: int
    answered: AnswerHandler | None  # None: an event for the NIC's user


class _Update:
    """A Port Status Update that a peer has not confirmed."""

    __slots__ = ("due_ns", "interval_ns", "peer", "request_id")

    def __init__(self, peer: Peer, request_id: int, due_ns: int, interval_ns: int) -> None:
        self.peer = peer
        self.request_id = request_id
        self.due_ns = due_ns
        self.interval_ns = interval_ns


class Endpoint:
    """The endpoint operations of one NIC."""

    def __init__(self, *, planes: int, rng: Random, update_interval_ns: int) -> None:
        """`update_interval_ns`: until an unconfirmed Port Status Update goes again, the first time."""
        self._planes_up = (1 << planes) - 1
        self._all_planes = self._planes_up
        self._rng = rng
        self._update_interval_ns = update_interval_ns
        self._next_id = rng.randrange(_ID_MASK + 1)
        self._probes: dict[int, _Probe] = {}
        self._updates: dict[int, _Update] = {}  # by host
        self._control: deque[Datagram] = deque()
        self._data: deque[Datagram] = deque()
        self._events: list[Event] = []

    @property
    def ports_down(self) -> int:
        """Bit p: our own port p is down."""
        return self._all_planes & ~self._planes_up

    def probe(self, peer: Peer, ev: int, now: int, answered: AnswerHandler | None = None) -> tuple[int, Datagram]:
        """(probe id, packet) of a new EV probe; `answered` is called when its answer comes, if ever."""
        probe_id = self._new_id()
        self._probes[probe_id] = _Probe(peer, ev, now, answered)
        if len(self._probes) > _PENDING_PROBES:
            del self._probes[next(iter(self._probes))]
        request = EndpointRequest(EndpointOperation.EV_PROBE, probe_id, ev)
        buffers = frame.control(
            peer.template(ev),
            dest_qp=ENDPOINT_QP,
            psn=0,
            opcode=Opcode.ENDPOINT_REQUEST,
            body=request,
            dscp=dscp.NO_TRIM,
        )
        return probe_id, Datagram(ev_format.plane_of(ev), False, buffers)

    def probe_for_user(self, peer: Peer, ev: int, now: int) -> int:
        """Queue an EV probe that is answered by an event. Returns its id."""
        probe_id, datagram = self.probe(peer, ev, now)
        self._data.append(datagram)
        return probe_id

    def receive(self, peer: Peer, packet: Packet, now: int) -> bool:
        """Take a packet to QP 2 from this peer; False when it makes no sense here."""
        body = packet.body
        if isinstance(body, EndpointRequest):
            return self._answer(peer, packet, body, now)
        if isinstance(body, EndpointResponse):
            return self._confirmed(peer, body, now)
        return False

    def port_changed(self, port: int, up: bool, peers: Iterable[Peer], now: int) -> None:
        """Our own port went up or down: tell these peers."""
        bit = 1 << port
        self._planes_up = self._planes_up | bit if up else self._planes_up & ~bit
        for peer in peers:
            self._updates[peer.host] = _Update(peer, self._new_id(), now, self._update_interval_ns)
        self.handle_timer(now)

    def next_timer(self) -> int | None:
        """When `handle_timer` wants to be called next."""
        return min((update.due_ns for update in self._updates.values()), default=None)

    def handle_timer(self, now: int) -> None:
        """Send what updates are due, each over a path drawn anew."""
        for update in self._updates.values():
            if update.due_ns > now:
                continue
            update.due_ns = now + update.interval_ns
            update.interval_ns = min(2 * update.interval_ns, _SLOWEST_REPEAT * self._update_interval_ns)
            ev = update.peer.any_ev(self._planes_up)
            if ev is not None:
                body = EndpointRequest(
                    EndpointOperation.PORT_STATUS_UPDATE, update.request_id, ports_down=self.ports_down
                )
                self._queue_control(update.peer, ev, Opcode.ENDPOINT_REQUEST, body)

    def poll_control(self) -> Datagram | None:
        """The next control packet."""
        return self._control.popleft() if self._control else None

    def poll_data(self, ready: int) -> Datagram | None:
        """The next packet of the data class, when its port is ready."""
        if self._data and ready >> self._data[0].port & 1:
            return self._data.popleft()
        return None

    def events(self) -> list[Event]:
        """Drain the events."""
        events, self._events = self._events, []
        return events

    def _new_id(self) -> int:
        self._next_id = self._next_id + 1 & _ID_MASK
        return self._next_id

    def _queue_control(self, peer: Peer, ev: int, opcode: int, body: EndpointRequest | EndpointResponse) -> None:
        if len(self._control) < _ANSWER_QUEUE:
            buffers = frame.control(peer.template(ev), dest_qp=ENDPOINT_QP, psn=0, opcode=opcode, body=body)
            self._control.append(Datagram(ev_format.plane_of(ev), True, buffers))

    def _answer(self, peer: Peer, packet: Packet, request: EndpointRequest, now: int) -> bool:
        if request.operation == EndpointOperation.EV_PROBE:
            mark = EcnEcho.SKIP_ONCE if packet.ecn == dscp.CE else EcnEcho.NONE
            answer = EndpointResponse(request.operation, request.request_id, request.ev, ecn_echo=mark)
        elif request.operation == EndpointOperation.PORT_STATUS_UPDATE:
            peer.updated(request.request_id, request.ports_down, now)
            answer = EndpointResponse(request.operation, request.request_id, ports_down=request.ports_down)
        else:
            return False
        self._queue_control(peer, packet.ev, Opcode.ENDPOINT_RESPONSE, answer)
        return True

    def _confirmed(self, peer: Peer, answer: EndpointResponse, now: int) -> bool:
        if answer.operation == EndpointOperation.PORT_STATUS_UPDATE:
            update = self._updates.get(peer.host)
            if update is not None and update.request_id == answer.request_id:
                del self._updates[peer.host]
            return True
        probe = self._probes.get(answer.request_id)
        if probe is None or probe.peer is not peer or probe.ev != answer.ev:
            return False
        del self._probes[answer.request_id]
        rtt_ns = now - probe.sent_ns
        if probe.answered is None:
            self._events.append(ProbeAnswered(ENDPOINT_QP, now, answer.request_id, peer.host, probe.ev, rtt_ns))
        else:
            probe.answered(probe.ev, rtt_ns, answer.ecn_echo != EcnEcho.NONE, now)
        return True
