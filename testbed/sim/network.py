"""The Clos of a lab file in virtual time: its ports and cables, and the faults that befall them.

Switches do what SRv6 uN does (RFC 9800): take off their own uSID, go by the next one. A packet's way is decoded
from its outer address alone, once for all packets that have it, and held against its EV when it enters: an EV that does
not say where the packet goes is an error of the sender, raised as `PathContradiction`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import cast

from agents.wire import address, ev
from agents.wire.address import Kind
from testbed.sim.events import EventList
from testbed.sim.link import CableSpec, Link
from testbed.sim.lossless import LosslessLink, Pfc
from testbed.sim.packet import Path, SimPacket, destination_usids, path_key
from testbed.topology import clos as clos_model
from testbed.topology.clos import Clos, Port
from testbed.topology.port_settings import planned


class PathContradiction(AssertionError):
    """A packet's outer address is no way through the Clos, or not the way that its EV names."""


@dataclass(frozen=True, slots=True)
class _Nic:
    """Who takes a host's packets and carrier changes."""

    receive: Callable[[int, bytes], None]
    carrier: Callable[[int, bool], None]


class SimNetwork:
    """All ports of a Clos.

    `crossed` counts packets of the data class by (plane, T1) they set out for; `last_write_ns` has when the last WRITE
    of each host did.
    """

    def __init__(self, clos: Clos, events: EventList, rng: Random, cable: CableSpec, *, loss: float = 0.0) -> None:
        """Ports are what the lab file says, cables like `cable`; all that is random comes from `rng`.

        `loss` and what a rough cable does befall packets on each hop but the first.
        """
        self.clos = clos
        self.events = events
        self.crossed: Counter[tuple[int, int | None]] = Counter()
        self.last_write_ns: dict[tuple[int, int, int | None], int] = {}  # (host, plane, T1) -> when
        self._links: dict[tuple[str, str], Link] = {}  # (from node, to node)
        self._link: Callable[..., Link] = Link
        self._nics: dict[str, _Nic] = {}
        self._paths: dict[tuple[int, int, bytes, int, int], tuple[Path, int | None]] = {}
        queue = clos.spec.queue
        if queue.pfc:
            self._link = partial(LosslessLink, pfc=Pfc(queue.xoff, queue.xon))
        for link in clos.links.values():
            for port in link.ends():
                far = clos.peer(port, link).node
                settings = planned(clos, port, link)
                first_hop = clos.nodes[port.node].kind == "host"
                self._links[port.node, far] = self._link(
                    settings if first_hop else replace(settings, loss=loss),
                    CableSpec(delay_ns=cable.delay_ns) if first_hop else cable,
                    events,
                    rng,
                    self._arrived,
                )
        for (near, far_end), one in self._links.items():
            if isinstance(one, LosslessLink):
                one.reverse = cast(LosslessLink, self._links[far_end, near])

    # -- hosts ---------------------------------------------------------------------------------------------------

    def attach(self, host: int, receive: Callable[[int, bytes], None], carrier: Callable[[int, bool], None]) -> None:
        """Plug a NIC in: who takes its packets (port, bytes) and its carrier changes (port, up)."""
        self._nics[clos_model.host_name(host)] = _Nic(receive, carrier)

    def uplink(self, host: int, port: int) -> Link:
        """A NIC's own port."""
        return self._links[clos_model.host_name(host), clos_model.t0_name(port, self.clos.group_of(host))]

    def send(self, host: int, port: int, data: bytes) -> None:
        """A NIC sends a packet. Raises PathContradiction."""
        key = path_key(host, port, data)
        found = self._paths.get(key)
        if found is None:
            found = self._paths[key] = self._decode(host, port, data)
        path, t1 = found
        packet = SimPacket(data, path)
        if not packet.control:
            self.crossed[port, t1] += 1
            if packet.writes:
                self.last_write_ns[host, port, t1] = self.events.now
        path.hops[0].send(packet)

    def _decode(self, host: int, port: int, data: bytes) -> tuple[Path, int | None]:
        """The path, and the T1 that the uSIDs name, once they and the EV agree on everything."""
        usids = destination_usids(data)
        _, _, _, flow_label, source_port = path_key(host, port, data)
        entropy = ev.from_headers(flow_label, source_port)
        hops = [address.split_usid(usid) for usid in usids]
        kinds = [kind for _, kind, _ in hops]
        if {plane for plane, _, _ in hops} != {port} or ev.plane_of(entropy) != port:
            raise PathContradiction(f"port {port}, but EV {entropy:#010x} and uSIDs {hops}")
        if hops[0][2] != self.clos.group_of(host):
            raise PathContradiction(f"host {host} is not on the T0 of uSIDs {hops}")
        t1: int | None = None
        if kinds == [Kind.T0, Kind.T1, Kind.T0, Kind.DOWNLINK]:
            t1 = hops[1][2]
            if t1 != ev.uplink_of(entropy):
                raise PathContradiction(f"EV {entropy:#010x} means T1 {ev.uplink_of(entropy)}, the uSIDs go to {hops}")
        elif kinds != [Kind.T0, Kind.DOWNLINK]:
            raise PathContradiction(f"uSIDs {hops} are no way through a Clos")
        nodes = [clos_model.host_name(host), *self._nodes(hops)]
        links = tuple(self._links[near, far] for near, far in pairwise(nodes))
        block = int.from_bytes(data[24:28], "big")
        return Path(links, usids, address.sid_address(block, usids[-1]), nodes[-1], port), t1

    def _nodes(self, hops: list[tuple[int, Kind, int]]) -> list[str]:
        """The nodes that own the uSIDs."""
        names = []
        group = 0
        for plane, kind, index in hops:
            if kind is Kind.T0:
                group = index
                names.append(clos_model.t0_name(plane, index))
            elif kind is Kind.T1:
                names.append(clos_model.t1_name(plane, index))
            else:
                names.append(clos_model.host_name(group * self.clos.spec.hosts_per_t0 + index))
        return names

    def _arrived(self, packet: SimPacket) -> None:
        path = packet.path
        packet.at = at = packet.at + 1
        if at < len(path.hops):
            path.hops[at].send(packet)
        else:
            self._nics[path.host].receive(path.port, packet.as_received())

    # -- faults --------------------------------------------------------------------------------------------------

    def port(self, port: Port) -> Link:
        """What leaves by a port of the Clos."""
        link = next(link for own, link in self.clos.ports(port.node) if own == port)
        return self._links[port.node, self.clos.peer(port, link).node]

    def directions(self, link: str) -> tuple[Link, Link]:
        """(near to far, far to near) of a link by its name, as `p0t0-1:p0t1-3`."""
        near, far = link.split(":")
        return self._links[near, far], self._links[far, near]

    def silence(self, link: str, *, up: bool = True, down: bool = True) -> None:
        """The link loses everything that goes up (near to far), down, or both, and nobody sees a carrier change."""
        for concerned, direction in zip((up, down), self.directions(link), strict=True):
            if concerned:
                direction.set_port(replace(direction.port, black_hole="all"))

    def unsilence(self, link: str) -> None:
        """The link works again, in both directions."""
        for direction in self.directions(link):
            direction.set_port(replace(direction.port, black_hole="none"))

    def cut(self, link: str) -> None:
        """The link goes down: what is on it is lost, and a NIC at its end loses carrier."""
        for direction in self.directions(link):
            direction.cut()
        self._tell_carrier(link, False)

    def mend(self, link: str) -> None:
        """The link comes up again."""
        for direction in self.directions(link):
            direction.mend()
        self._tell_carrier(link, True)

    def _tell_carrier(self, link: str, up: bool) -> None:
        nic = self._nics.get(self.clos.links[link].a.node)
        if nic is not None:
            nic.carrier(self.clos.links[link].plane, up)

    # -- what was seen -------------------------------------------------------------------------------------------

    def fates(self) -> Counter[str]:
        """Packets of all ports by what became of them (a packet counts once at each port)."""
        total: Counter[str] = Counter()
        for link in self._links.values():
            total.update(link.counts)
        return total
