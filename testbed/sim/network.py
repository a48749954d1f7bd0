"""The Clos of a lab file in virtual time: its links, its switches, and the faults that befall them.

Switches do what SRv6 uN does (RFC 9800): take off their own uSID, go by the next one. A packet's way is decoded
from its outer address alone, and held against its EV when it enters: an EV that does not say where the packet goes
is an error of the sender, raised as `PathContradiction`.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from agents.wire import address, ev
from agents.wire.address import Kind
from testbed.sim.events import Action, EventList
from testbed.sim.link import Link, LinkSpec, SimPacket
from testbed.topology import clos as clos_model
from testbed.topology.clos import Clos

_OUTER_DESTINATION = slice(24, 40)
_HOP_LIMIT_AT = 7
_INNER_FLOW_LABEL = struct.Struct("!40xI36xH")  # first word of the inner IPv6 header, UDP source port


class PathContradiction(AssertionError):
    """A packet's outer address is no way through the Clos, or not the way that its EV names."""


class LossyNetwork:
    """All links of a Clos, two directions each; `crossed` counts data packets by (plane, T1) they set out for."""

    def __init__(self, clos: Clos, events: EventList, rng: Random, spec: LinkSpec) -> None:
        """Links have the rates of the Clos and are like `spec` otherwise; all that is random comes from `rng`."""
        self.clos = clos
        self.events = events
        self.crossed: Counter[tuple[int, int | None]] = Counter()
        self._rng = rng
        self._spec = spec
        self._links: dict[tuple[str, str], Link] = {}  # (from node, to node)
        self._hosts: dict[str, Callable[[int, bytes], None]] = {}
        self._carrier: dict[str, Callable[[int, bool], None]] = {}
        for link in clos.links.values():
            for near, far in ((link.a.node, link.b.node), (link.b.node, link.a.node)):
                self._links[near, far] = Link(link.rate_bps, spec, events, rng, partial(self._at_node, far))

    # -- hosts ---------------------------------------------------------------------------------------------------

    def attach(
        self,
        host: int,
        receive: Callable[[int, bytes], None],
        carrier: Callable[[int, bool], None],
        on_space: Callable[[int], None],
        port_queue_bytes: int,
    ) -> None:
        """Plug a NIC in: who takes its packets, its carrier changes, and the news that a port has room again."""
        name = clos_model.host_name(host)
        self._hosts[name] = receive
        self._carrier[name] = carrier
        for plane in range(self.clos.spec.planes):
            t0 = clos_model.t0_name(plane, self.clos.group_of(host))
            notify: Action = partial(on_space, plane)
            # The first hop has no faults of its own but being cut: three others of each path have them.
            spec = LinkSpec(delay_ns=self._spec.delay_ns, queue_bytes=port_queue_bytes)
            rate_bps = self._links[name, t0].rate_bps
            self._links[name, t0] = Link(rate_bps, spec, self.events, self._rng, partial(self._at_node, t0), notify)

    def has_room(self, host: int, port: int, size_bytes: int) -> bool:
        """Whether a NIC port's queue takes a data packet of this size."""
        return self._uplink(host, port).has_room(size_bytes)

    def send(self, host: int, port: int, data: bytes, control: bool) -> None:
        """A NIC sends a packet. Raises PathContradiction."""
        usids = address.address_usids(data[_OUTER_DESTINATION])
        t1 = self._check_path(host, port, usids, data)
        if not control:
            self.crossed[port, t1] += 1
        self._uplink(host, port).send(SimPacket(data, control, usids))

    def _uplink(self, host: int, port: int) -> Link:
        return self._links[clos_model.host_name(host), clos_model.t0_name(port, self.clos.group_of(host))]

    def _check_path(self, host: int, port: int, usids: tuple[int, ...], data: bytes) -> int | None:
        """The T1 that the uSIDs name, once they and the EV agree on everything."""
        word, source_port = _INNER_FLOW_LABEL.unpack_from(data)
        entropy = ev.from_headers(word & 0xFFFFF, source_port)
        hops = [address.split_usid(usid) for usid in usids]
        kinds = [kind for _, kind, _ in hops]
        if {plane for plane, _, _ in hops} != {port} or ev.plane_of(entropy) != port:
            raise PathContradiction(f"port {port}, but EV {entropy:#010x} and uSIDs {hops}")
        if hops[0][2] != self.clos.group_of(host):
            raise PathContradiction(f"host {host} is not on the T0 of uSIDs {hops}")
        if kinds == [Kind.T0, Kind.DOWNLINK]:
            return None
        if kinds != [Kind.T0, Kind.T1, Kind.T0, Kind.DOWNLINK]:
            raise PathContradiction(f"uSIDs {hops} are no way through a Clos")
        if hops[1][2] != ev.uplink_of(entropy):
            raise PathContradiction(f"EV {entropy:#010x} means T1 {ev.uplink_of(entropy)}, the uSIDs go to {hops}")
        return hops[1][2]

    # -- switches ------------------------------------------------------------------------------------------------

    def _at_node(self, node: str, packet: SimPacket) -> None:
        receive = self._hosts.get(node)
        if receive is not None:
            plane, _, _ = address.split_usid(packet.usids[0])
            receive(plane, _as_received(packet))
            return
        behind = packet.usids[1:]
        plane, kind, index = address.split_usid(behind[0])
        if kind is Kind.T0:
            following = clos_model.t0_name(plane, index)
        elif kind is Kind.T1:
            following = clos_model.t1_name(plane, index)
        else:
            group = self.clos.nodes[node].index
            following = clos_model.host_name(group * self.clos.spec.hosts_per_t0 + index)
        self._links[node, following].send(SimPacket(packet.data, packet.control, behind))

    # -- faults --------------------------------------------------------------------------------------------------

    def directions(self, link: str) -> tuple[Link, Link]:
        """(near to far, far to near) of a link by its name, as `p0t0-1:p0t1-3`."""
        near, far = link.split(":")
        return self._links[near, far], self._links[far, near]

    def silence(self, link: str, *, up: bool = True, down: bool = True) -> None:
        """The link loses everything that goes up (near to far), down, or both, and nobody sees a carrier change."""
        self._set_dead(link, up, down, True)

    def unsilence(self, link: str) -> None:
        """The link works again, in both directions."""
        self._set_dead(link, True, True, False)

    def _set_dead(self, link: str, up: bool, down: bool, dead: bool) -> None:
        for concerned, direction in zip((up, down), self.directions(link), strict=True):
            if concerned:
                direction.dead = dead

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
        near = self.clos.links[link].a.node
        if near in self._carrier:
            self._carrier[near](self.clos.links[link].plane, up)

    # -- what was seen -------------------------------------------------------------------------------------------

    def fates(self) -> Counter[str]:
        """Packets of all links by what became of them (a packet counts once on each link)."""
        total: Counter[str] = Counter()
        for link in self._links.values():
            total.update(link.counts)
        return total


def _as_received(packet: SimPacket) -> bytes:
    """The bytes at the far host: the uSIDs used up are shifted out, the hop limit is lower by one per switch."""
    data = bytearray(packet.data)
    block = int.from_bytes(data[24:28], "big")
    switches = len(address.address_usids(packet.data[_OUTER_DESTINATION])) - len(packet.usids)
    data[_OUTER_DESTINATION] = address.sid_address(block, *packet.usids)
    data[_HOP_LIMIT_AT] -= switches
    return bytes(data)
