"""An MRC queue pair: joins the sending half, the receiving half and the EVs behind the common interface.

It also knows which planes are up at both ends. Which way a report goes back is `reverse`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from agents.memory import MemoryTable
from agents.mrc.config import MrcConfig, check_mpr
from agents.mrc.endpoint import Endpoint
from agents.mrc.ev_set import Ev, EvSet, choose
from agents.mrc.ev_state import USABLE, Cause, State
from agents.mrc.peer import Peer
from agents.mrc.probing import Prober
from agents.mrc.profile import EvProfile
from agents.mrc.requester import Requester
from agents.mrc.responder import Responder
from agents.mrc.reverse import ReverseSet
from agents.transport import (
    Datagram,
    EvChanged,
    Event,
    EvInfo,
    PortChanged,
    QpCounters,
    QpFailed,
    QpStateError,
    QueuePair,
    Write,
)
from agents.wire import ev as ev_format
from agents.wire import frame, psn
from agents.wire.headers import Nack, Opcode, ReliabilityProbe, Sack
from agents.wire.packet import Packet
from agents.wire.packet import Write as WriteBody


class MrcQueuePair(QueuePair):
    """One end of an MRC connection. Made by the NIC, which has to `connect` it before WRITEs are posted."""

    def __init__(
        self,
        qpn: int,
        peer: Peer,
        config: MrcConfig,
        *,
        payload_mtu: int,
        own_ports_up: int,
        memory: MemoryTable,
        endpoint: Endpoint,
        rng: Random,
        profile: EvProfile | None = None,
    ) -> None:
        """`own_ports_up`: bit mask; `profile` says which EVs, instead of `config`.

        Raises ValueError when the configuration or the profile cannot work with this NIC.
        """
        self.qpn = qpn
        self.config = config
        self.peer = peer
        self.start_psn = rng.randrange(psn.MODULUS) if config.start_psn is None else config.start_psn
        self.counters = QpCounters()
        self.closed = False
        self.refused: Counter[str] = Counter()  # packets not taken, by reason
        self._endpoint = endpoint
        self._rng = rng
        self._planes = peer.planes
        self._own_ports_up = own_ports_up
        self.peer_host = peer.host
        self.remote_qpn = None
        self._failed = False
        self._events: list[Event] = []
        self._profile = profile
        if profile is None:
            values, turns = choose(peer.planes, peer.uplinks, config.evs_per_plane, rng)
        else:
            values, turns = profile.choose(peer.uplinks)
        self._evs = EvSet(
            [[Ev(value, peer.template(value)) for value in plane] for plane in values],
            turns,
            rng,
            on_change=self._ev_changed,
            min_active=config.ev_min_active if profile is None else profile.min_active,
            retire=config.retire_evs,
            skip_ns=config.skip_ns,
        )
        self._evs.set_planes_up(own_ports_up & ~peer.ports_down)
        self._prober = Prober(config, self._evs, self._send_probe)
        self._reverse = ReverseSet(config, self._evs, peer.planes, rng, self._send_reverse_probe)
        self._requester = Requester(
            qpn, self.start_psn, payload_mtu, config, self._evs, peer.planes, self.counters, self._events.append,
            self._prober.cleared,
        )  # fmt: skip
        self._responder = Responder(qpn, config, memory, peer.planes, self.counters, self.refused, self._events.append)
        self.bytes_received_by_port = self._responder.bytes_by_port
        if profile is not None:
            profile.attach(self)

    def connect(self, remote_qpn: int, remote_psn: int) -> None:
        """The far end: its number and its first PSN. Raises QpStateError when connected already."""
        if self.remote_qpn is not None:
            raise QpStateError(f"queue pair {self.qpn} is connected already")
        self.remote_qpn = remote_qpn
        self._requester.connect(remote_qpn)
        self._responder.connect(remote_psn)

    def close(self) -> None:
        """The queue pair is no more: its profiles may change."""
        self.closed = True
        if self._profile is not None:
            self._profile.detach(self)

    @property
    def idle(self) -> bool:
        """Every posted WRITE is acknowledged."""
        return self._requester.idle

    @property
    def planes_up(self) -> int:
        """Bit p: plane p is up at both ends, as far as this end knows."""
        return self._evs.up_mask

    def ev_map(self) -> list[EvInfo]:
        """Every EV, backups included, by plane."""
        turns = {}
        for plane in range(self._planes):
            in_use = self._evs.in_use(plane)
            turns.update(dict.fromkeys((ev.value for ev in in_use), self._evs.turns_per_plane / max(1, len(in_use))))
        return [
            EvInfo(
                ev.value, ev.plane, ev_format.uplink_of(ev.value), ev.state.value, turns.get(ev.value, 0.0), ev.rtt_ns
            )
            for ev in self._evs
        ]

    def ev_counts(self) -> dict[str, int]:
        """How many EVs are in each state (those in none are left out)."""
        return dict(Counter(ev.state.value for ev in self._evs))

    def deny(self, ev: int, now: int) -> None:
        """The controller takes an EV out of use. Raises KeyError when it is not of this queue pair."""
        self._evs.apply(self._known(ev), Cause.DENY, now)

    def allow(self, ev: int, now: int) -> None:
        """The controller gives an EV back. Raises KeyError when it is not of this queue pair."""
        self._evs.apply(self._known(ev), Cause.ALLOW, now)

    def set_mpr(self, mpr: int) -> None:
        """Take up to `mpr` PSNs beyond the first hole from now on (dynamic MPR: each SACK tells the sender).

        Raises ValueError for a number that SETH has no room for. What the sender has sent beyond is refused, and comes
        again in time.
        """
        check_mpr(mpr)
        self._responder.set_mpr(mpr)

    def set_receiver_penalty(self, penalty: int) -> None:
        """Ask the sender, by every SACK from now on, to shrink its window by `penalty` / 128 of what it reports.

        Raises ValueError outside 0..127.
        """
        if not 0 <= penalty < 128:
            raise ValueError(f"a receiver's penalty of {penalty}; it can be 0 to 127")
        self._responder.penalty = penalty

    def post(self, write: Write) -> None:
        """See QueuePair."""
        if self.remote_qpn is None or self._failed:
            raise QpStateError(f"queue pair {self.qpn} " + ("has failed" if self._failed else "is not connected"))
        self._requester.post(write)

    def receive(self, port: int, packet: Packet, now: int) -> None:
        """See QueuePair."""
        if self.remote_qpn is None:
            self.refused["not-connected"] += 1
            return
        body = packet.body
        if isinstance(body, WriteBody):
            self._responder.on_write(port, packet, body, now)
            self._reverse.heard(now)
        elif isinstance(body, ReliabilityProbe):
            self._responder.on_probe(packet, body)
        elif self._failed:
            self.refused["failed"] += 1
        elif isinstance(body, Sack):
            self.peer.reported(body.ports_down, now)
            if self._requester.on_sack(body, now):
                self._reverse.proved(body.ev, now)
            else:
                self.refused["report"] += 1
        elif not (isinstance(body, Nack) and self._requester.on_nack(body, now)):
            self.refused["opcode"] += 1
        self._notice_failure(now)

    def poll_transmit(self, now: int, ready_ports: int) -> Datagram | None:
        """See QueuePair. Control packets come first, and whatever ports are ready."""
        if self.remote_qpn is None:
            return None
        if self._responder.due:
            report = self._responder.poll(self._endpoint.ports_down)
            if report is not None:
                datagram = self._control(*report)
                if datagram is not None:
                    return datagram
        if self._failed:
            return None
        if self._prober.waiting:
            datagram = self._prober.poll(now, ready_ports)
            if datagram is not None:
                return datagram
        if self._reverse.probe_wanted:
            datagram = self._reverse.poll(now, ready_ports)
            if datagram is not None:
                return datagram
        return self._requester.poll(now, ready_ports)

    def set_port_up(self, port: int, up: bool, now: int) -> None:
        """See QueuePair."""
        bit = 1 << port
        self._own_ports_up = self._own_ports_up | bit if up else self._own_ports_up & ~bit
        self._planes_changed("own", now)

    def peer_ports_changed(self, now: int) -> None:
        """The peer told which of its ports are down; `peer.ports_down` has it."""
        self._planes_changed("peer", now)

    def next_timer(self) -> int | None:
        """See QueuePair."""
        if self._failed:
            return None
        first = self._requester.next_timer()
        for due in (self._prober.next_timer(), self._reverse.next_timer()):
            if due is not None and (first is None or due < first):
                first = due
        return first

    def handle_timer(self, now: int) -> None:
        """See QueuePair."""
        self._prober.handle_timer(now)
        self._reverse.handle_timer(now)
        self._requester.handle_timer(now)
        self._notice_failure(now)

    def events(self) -> Iterator[Event]:
        """See QueuePair. By now all that came in together has been read, so it is told here what is lost."""
        self._requester.judge()
        events = self._events[:]
        self._events.clear()
        return iter(events)

    def _known(self, value: int) -> Ev:
        ev = self._evs.get(value)
        if ev is None:
            raise KeyError(f"EV {value:#010x} is not one of queue pair {self.qpn}")
        return ev

    def _planes_changed(self, end: str, now: int) -> None:
        before = self._evs.up_mask
        after = self._own_ports_up & ~self.peer.ports_down
        changed = before ^ after
        self._evs.set_planes_up(after)
        self._requester.planes_changed(changed & before, now)
        for port in range(self._planes):
            if changed >> port & 1:
                self._events.append(PortChanged(self.qpn, now, port, bool(after >> port & 1), end))

    def _control(self, number: int, body: Sack | Nack) -> Datagram | None:
        ev = self._reverse.way_back(body.ev)
        if ev is None:
            return None  # no plane is up
        assert ev.template is not None and self.remote_qpn is not None
        opcode = Opcode.SACK if isinstance(body, Sack) else Opcode.NACK
        buffers = frame.control(ev.template, dest_qp=self.remote_qpn, psn=number, opcode=opcode, body=body)
        return Datagram(ev.plane, True, buffers)

    def _send_probe(self, ev: Ev, now: int) -> Datagram:
        self.counters.probes_sent += 1
        return self._endpoint.probe(self.peer, ev.value, now, self._prober.answered)[1]

    def _send_reverse_probe(self, ev: Ev, now: int) -> Datagram:
        self.counters.probes_sent += 1
        return self._endpoint.probe(self.peer, ev.value, now, self._reverse.answered)[1]

    def _ev_changed(self, ev: Ev, old: State, new: State, why: Cause, now: int) -> None:
        if new is State.SKIP:
            self.counters.evs_skipped += 1
        if old not in USABLE or new not in USABLE:
            self._events.append(EvChanged(self.qpn, now, ev.value, old.value, new.value, why.value))
            if self._profile is not None:
                self._profile.changed(self.qpn, ev.value, new)
        if new is State.ASSUMED_BAD:
            self._prober.retired(ev, now)
        elif old is State.ASSUMED_BAD:
            self._prober.released(ev, now)

    def _notice_failure(self, now: int) -> None:
        if self._failed:
            return
        why = self._requester.failed or self._responder.failed
        if why is not None:
            self._failed = True
            self._events.append(QpFailed(self.qpn, now, why, self._requester.refused))
