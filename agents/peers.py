"""The other hosts that a NIC talks to, and the path of each EV there: all follows from the shape of the fabric."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from agents.mrc.peer import Peer
from agents.nic_config import NicConfig
from agents.wire import address, ev
from agents.wire.frame import PathTemplate


class Peers:
    """The peers of one NIC, each made when it is first asked for."""

    def __init__(self, config: NicConfig, rng: Random, hold_ns: int) -> None:
        """`hold_ns`: about a round trip (see `Peer`)."""
        self._config = config
        self._rng = rng
        self._hold_ns = hold_ns
        self._address = address.host_address(config.host)
        self._peers: dict[int, Peer] = {}

    def __iter__(self) -> Iterator[Peer]:
        """Those that were asked for so far."""
        return iter(self._peers.values())

    def get(self, host: int) -> Peer:
        """The peer that host is. Raises ValueError for one that the fabric does not have."""
        peer = self._peers.get(host)
        if peer is None:
            config = self._config
            if not 0 <= host < config.hosts:
                raise ValueError(f"host {host} is not one of 0..{config.hosts - 1}")
            peer = self._peers[host] = Peer(
                host,
                address.host_address(host),
                planes=config.planes,
                uplinks=self.uplinks(1 if self._same_t0(host) else config.t1s_per_plane),
                make_template=lambda value: self._template(host, value),
                rng=self._rng,
                hold_ns=self._hold_ns,
            )
        return peer

    def at(self, source: bytes) -> Peer | None:
        """The peer with that address; None for an address of no host."""
        host = address.host_number(source)
        return None if host is None or host >= self._config.hosts else self.get(host)

    def uplinks(self, paths: int) -> int:
        """Different EVs per plane: one for each path; where the fabric hashes, and EVs are entropy, all there are."""
        return paths if self._config.source_routed else address.MAX_T1_PER_PLANE

    def _same_t0(self, host: int) -> bool:
        return host // self._config.hosts_per_t0 == self._config.host // self._config.hosts_per_t0

    def _template(self, host: int, value: int) -> PathTemplate:
        config = self._config
        usids = self._usids(host, value) if config.source_routed else None
        return PathTemplate(
            src=self._address,
            dst=address.host_address(host),
            usids=usids,
            ev=value,
            block=config.block,
            udp_port=config.udp_port,
        )

    def _usids(self, host: int, value: int) -> tuple[int, ...]:
        config = self._config
        t1 = None if self._same_t0(host) else ev.uplink_of(value)
        return address.path_usids(
            ev.plane_of(value),
            config.host // config.hosts_per_t0,
            t1,
            host // config.hosts_per_t0,
            host % config.hosts_per_t0,
        )
