"""A NIC, sans-IO: ports, registered memory, queue pairs, endpoint operations. What the daemon and the simulator drive.

The calling rules are those of `agents.transport`. A port is a plane. The NIC knows the shape of the fabric and computes
every path (`agents.wire.address`); it learns nothing from the network but what packets say.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from random import Random
from typing import Any, Literal, overload

from agents.clustermapper.prober import Prober
from agents.clustermapper.settings import Settings
from agents.memory import MemoryTable, Region
from agents.mrc.cc_profile import CcProfile
from agents.mrc.config import BASE_RTT_NS, MAX_EVS, MrcConfig
from agents.mrc.congestion.base import Fabric
from agents.mrc.endpoint import Endpoint
from agents.mrc.ev_set import path_of
from agents.mrc.peer import Peer
from agents.mrc.profile import EvProfile
from agents.mrc.qp import MrcQueuePair
from agents.nic_config import NicConfig
from agents.peers import Peers
from agents.planes import Planes
from agents.roce.config import RoceConfig
from agents.roce.qp import RoceQueuePair
from agents.transport import Datagram, Event, QueuePair
from agents.wire import address, psn
from agents.wire.headers import ENDPOINT_QP
from agents.wire.packet import WireError, parse

_NS_BITS = 8 * 10**9
TRANSPORTS = ("mrc", "roce")
_FIRST_QPN = 16  # 0 and 1 are management's in IBTA, 2 is the endpoint's


class Nic:
    """One host's NIC. All its ports start up and ready."""

    def __init__(self, config: NicConfig, rng: Random) -> None:
        """`rng` draws keys, numbers and the order of paths: the same seed, the same NIC."""
        self.config = config
        self.errors: Counter[str] = Counter()  # packets not taken, by reason; queue pairs count their own in `refused`
        self.queue_pairs: dict[int, QueuePair] = {}
        self.memory = MemoryTable(rng)
        self._rng = rng
        self._defaults = self.transport_config()
        self._address = address.host_address(config.host)
        self._all_ports = (1 << config.planes) - 1
        self._ports_ready = self._all_ports
        self._peers = Peers(config, rng, self._defaults.initial_rtt_ns)
        self._peer_of: dict[int, Peer] = {}  # by queue pair
        self._endpoint = Endpoint(
            planes=config.planes, rng=rng, update_interval_ns=self._defaults.port_update_interval_ns
        )
        self.prober = Prober(
            config.host,
            planes=config.planes,
            hosts_per_t0=config.hosts_per_t0,
            t1s_per_plane=config.t1s_per_plane,
            block=config.block,
            udp_port=config.udp_port,
        )
        self._planes = Planes(config.planes, self.prober)
        self._turns: deque[QueuePair] = deque()  # round robin over the queue pairs
        self._next_qpn = _FIRST_QPN

    # Set-up

    def register_memory(self, memory: int | bytearray | memoryview) -> Region:
        """A region that peers may write to: so many zero bytes, or a buffer of the caller's."""
        return self.memory.register(memory)

    def settings(self, transport: str, **settings: Any) -> MrcConfig | RoceConfig:
        """The settings of a queue pair of `transport`. Raises ValueError for what there is not or cannot work."""
        if transport == "mrc":
            return self.transport_config(**settings)
        if transport == "roce":
            return self.roce_config(**settings)
        raise ValueError(f"no transport is called {transport!r}; there are: {', '.join(TRANSPORTS)}")

    def roce_config(self, **settings: Any) -> RoceConfig:
        """The settings of a RoCE queue pair for this fabric's times and rates, with `settings` on top.

        Raises ValueError for numbers that cannot work.
        """
        config = self.config
        return RoceConfig.dilated(config.time_dilation, **{"link_bps": config.real_rate_bps, **settings})

    def transport_config(self, **settings: Any) -> MrcConfig:
        """The settings of an MRC queue pair for this fabric's times and rates, with `settings` on top.

        Raises ValueError for numbers that cannot work.
        """
        config = self.config
        fabric = {
            "plane_bdp_bytes": config.real_rate_bps * BASE_RTT_NS // _NS_BITS,
            "trimming": config.trimming,
        }
        return MrcConfig.dilated(config.time_dilation, **{**fabric, **settings})

    @overload
    def create_qp(
        self,
        peer_host: int,
        *,
        transport: Literal["mrc"] = "mrc",
        options: MrcConfig | None = None,
        qpn: int | None = None,
        ev_profile: EvProfile | None = None,
    ) -> MrcQueuePair: ...
    @overload
    def create_qp(
        self, peer_host: int, *, transport: Literal["roce"], options: RoceConfig | None = None
    ) -> RoceQueuePair: ...
    @overload
    def create_qp(
        self, peer_host: int, *, transport: str, options: MrcConfig | RoceConfig | None = None
    ) -> QueuePair: ...
    def create_qp(
        self,
        peer_host: int,
        *,
        transport: str = "mrc",
        options: MrcConfig | RoceConfig | None = None,
        qpn: int | None = None,
        ev_profile: EvProfile | None = None,
    ) -> QueuePair:
        """A queue pair to another host, not yet connected; `options` (of its transport) default to this fabric's times.

        `qpn`: a number that was reserved; `ev_profile`: where MRC's EVs come from, otherwise the options say.
        Raises ValueError for a host that is not there, an unknown transport, or settings that cannot work.
        """
        if peer_host == self.config.host:
            raise ValueError(f"host {peer_host} is this host; a queue pair needs another one")
        peer = self._peers.get(peer_host)
        queue_pair: QueuePair
        number = self.reserve_qpn() if qpn is None else qpn
        if transport == "mrc" and not isinstance(options, RoceConfig):
            queue_pair = mrc = self._mrc_qp(number, peer, options or self._defaults, ev_profile)
            peer.queue_pairs.append(mrc)
        elif transport == "roce" and not isinstance(options, MrcConfig):
            queue_pair = self._roce_qp(number, peer, options or self.roce_config())
        elif transport in TRANSPORTS:
            raise ValueError(f"these are not the options of {transport}")
        else:
            raise ValueError(f"no transport is called {transport!r}; there are: {', '.join(TRANSPORTS)}")
        self.queue_pairs[queue_pair.qpn] = queue_pair
        self._peer_of[queue_pair.qpn] = peer
        self._turns.append(queue_pair)
        return queue_pair

    def reserve_qpn(self) -> int:
        """A number for a queue pair that is made later."""
        self._next_qpn += 1
        return self._next_qpn - 1

    def draw_psn(self) -> int:
        """A PSN to start with."""
        return self._rng.randrange(psn.MODULUS)

    def create_ev_profile(self, profile_id: int) -> EvProfile:
        """A profile in INIT for the paths that leave this NIC's rack."""
        return EvProfile(profile_id, self.config.planes, self._peers.uplinks(self.config.t1s_per_plane), self._rng)

    def create_cc_profile(self, profile_id: int) -> CcProfile:
        """A congestion control profile in INIT."""
        return CcProfile(profile_id, self._defaults, Fabric(self.config.planes, self.config.payload_mtu))

    def _mrc_qp(self, qpn: int, peer: Peer, options: MrcConfig, profile: EvProfile | None) -> MrcQueuePair:
        return MrcQueuePair(
            qpn,
            peer,
            options,
            payload_mtu=self.config.payload_mtu,
            own_ports_up=self._planes.in_use,
            memory=self.memory,
            endpoint=self._endpoint,
            rng=self._rng,
            profile=profile,
        )

    def _roce_qp(self, qpn: int, peer: Peer, options: RoceConfig) -> RoceQueuePair:
        path = peer.any_ev(self._planes.in_use)
        if path is None:
            raise ValueError(f"no plane is up to host {peer.host}; a RoCE queue pair needs its path at once")
        return RoceQueuePair(
            qpn,
            peer.host,
            peer.template(path),
            options,
            payload_mtu=self.config.payload_mtu,
            planes=self.config.planes,
            memory=self.memory,
            rng=self._rng,
        )

    def connect(self, qpn: int, remote_qpn: int, remote_psn: int) -> None:
        """Tell a queue pair its far end: the number there, and the PSN it starts with. KeyError: no such queue pair."""
        self.queue_pairs[qpn].connect(remote_qpn, remote_psn)

    def destroy_qp(self, qpn: int) -> None:
        """Forget a queue pair, whatever it was doing. KeyError: there is none."""
        queue_pair = self.queue_pairs.pop(qpn)
        self._turns.remove(queue_pair)
        peer = self._peer_of.pop(qpn)
        if isinstance(queue_pair, MrcQueuePair):
            peer.queue_pairs.remove(queue_pair)
            queue_pair.close()

    # What the driver calls

    def receive(self, port: int, data: memoryview | bytes, now: int) -> None:
        """A packet came in on `port`, from its first IPv6 header on; what is not for us is counted in `errors`."""
        try:
            packet = parse(data, udp_port=self.config.udp_port)
        except WireError as error:
            self.errors[error.reason] += 1
            return
        if packet.dst != self._address:
            self.errors["not-ours"] += 1
            return
        if packet.src == self._address:
            if not self.prober.receive(port, packet, now):
                self.errors["self-probe"] += 1
            return
        queue_pair = self.queue_pairs.get(packet.dest_qp)
        peer = self._peer_of[packet.dest_qp] if queue_pair is not None else self._peers.at(packet.src)
        if peer is None or peer.address != packet.src:
            self.errors["stranger"] += 1
        elif path_of(packet.ev) not in peer.paths[port]:
            self.errors["ev"] += 1
        elif queue_pair is not None:
            queue_pair.receive(port, packet, now)
        elif packet.dest_qp != ENDPOINT_QP:
            self.errors["no-such-qp"] += 1
        elif not self._endpoint.receive(peer, packet, now):
            self.errors["endpoint"] += 1

    def set_port_ready(self, port: int, ready: bool) -> None:
        """The data class of a port takes packets, or does not at the moment."""
        bit = 1 << port
        self._ports_ready = self._ports_ready | bit if ready else self._ports_ready & ~bit

    def set_port_up(self, port: int, up: bool, now: int) -> None:
        """A port regained or lost its carrier. What flew on it goes again elsewhere; the peers are told."""
        self._planes.set_carrier(port, up, now)
        self._use_planes(now)

    def set_health(self, settings: Settings, now: int) -> None:
        """Probe the fabric like this from now on. Raises ValueError where the fabric hashes: no probe has a path."""
        if settings.policy != "off" and not self.config.source_routed:
            raise ValueError("self-probes need a fabric that forwards as the sender says (routing: srv6)")
        self.prober.configure(settings, now)
        self._use_planes(now)

    def _use_planes(self, now: int) -> None:
        """A plane that the denylist policy has denied is as good as down, here and for the peers."""
        peers = [peer for peer in self._peers if peer.queue_pairs]
        self._planes.decide([self._all_ports & ~peer.ports_down for peer in peers], now)
        for port, up in self._planes.changes():
            for queue_pair in self.queue_pairs.values():
                queue_pair.set_port_up(port, up, now)
            self._endpoint.port_changed(port, up, peers, now)

    @property
    def idle(self) -> bool:
        """It has no queue pair, and nothing to lose when it learns late of a port that is down."""
        return not self.queue_pairs

    @property
    def max_evs(self) -> int:
        """How many EVs a queue pair can have in use."""
        return MAX_EVS

    @property
    def ports_up(self) -> int:
        """Bit p: our own port p is up, and its plane is not denied."""
        return self._planes.in_use

    def next_timer(self) -> int | None:
        """When `handle_timer` wants to be called next, in ns; None for never."""
        first = self._endpoint.next_timer()
        due = self.prober.next_timer()
        if due is not None and (first is None or due < first):
            first = due
        for queue_pair in self._turns:
            due = queue_pair.next_timer()
            if due is not None and (first is None or due < first):
                first = due
        return first

    def handle_timer(self, now: int) -> None:
        """Do what is due at `now`."""
        self._endpoint.handle_timer(now)
        due = self.prober.next_timer()
        if due is not None and due <= now:
            self.prober.handle_timer(now)
            self._use_planes(now)
        for queue_pair in self._turns:
            due = queue_pair.next_timer()
            if due is not None and due <= now:
                queue_pair.handle_timer(now)

    def events(self) -> Iterator[Event]:
        """Drain the events of all queue pairs and of the endpoint operations."""
        yield from self._planes.events()
        yield from self._endpoint.events()
        for queue_pair in self._turns:
            yield from queue_pair.events()

    def datagrams_to_send(self, now: int) -> Iterator[Datagram]:
        """What can go out now, chosen packet by packet: control first, then the queue pairs in turns.

        Self-probes wait for no port: they are few, and their round trip begins when they are sent.
        """
        probes = self.prober.probes()
        while probes:
            plane, buffers = probes.popleft()
            yield Datagram(plane, True, buffers)
        while (datagram := self._endpoint.poll_control()) is not None:
            yield datagram
        silent = 0
        turns = self._turns
        while silent < len(turns):
            datagram = turns[0].poll_transmit(now, self._ports_ready & self._planes.in_use)
            turns.rotate(-1)
            if datagram is None:
                silent += 1
            else:
                silent = 0
                yield datagram
        while (datagram := self._endpoint.poll_data(self._ports_ready & self._planes.in_use)) is not None:
            yield datagram

    # Endpoint operations

    def probe(self, peer_host: int, ev: int, now: int) -> int:
        """Ask a host to answer over `ev`: a ProbeAnswered event with the id that is returned, if it does.

        Raises ValueError for a host or an EV that is not there.
        """
        peer = self._peers.get(peer_host)
        if not peer.knows(ev):
            raise ValueError(f"EV {ev:#010x} names no path to host {peer_host}")
        return self._endpoint.probe_for_user(peer, ev, now)
