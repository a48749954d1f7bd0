"""The Clos whose switches hash flows onto paths, as ECMP does: what the baselines run on.

Packets go without the outer header. A T0 takes one of the T1s by a hash over addresses and ports (the kernel's L4
policy), seeded for each switch; all packets of a flow go the same way. A T0 sees when its own link to a T1 is down, and
hashes over the others. It does not see what lies behind: a T1 whose link to the far T0 is down still gets its share,
and so does a link that loses everything silently. That is routing without a routing protocol.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from itertools import pairwise

from agents.wire import address
from testbed.sim.network import PathContradiction, SimNetwork
from testbed.sim.packet import Path, first_destination
from testbed.topology import clos as clos_model

_SEED = struct.Struct("!HH")  # plane, T0
_ADDRESSES_AND_PORTS = slice(8, 44)


class HashedNetwork(SimNetwork):
    """As SimNetwork, but the switches choose the way."""

    def _decode(self, host: int, port: int, data: bytes) -> tuple[Path, int | None]:
        destination = first_destination(data)
        far = address.host_number(destination)
        if far is None or far >= self.clos.spec.hosts:
            raise PathContradiction(f"host {host} sends to {destination.hex()}, which is no host's address")
        t1 = None
        if self.clos.group_of(host) != self.clos.group_of(far):
            t1 = self._chosen(host, port, data)
        # Within a rack the T1 has no part in the path.
        nodes = self.clos.path_nodes(host, far, port, 0 if t1 is None else t1)
        links = tuple(self._links[near, following] for near, following in pairwise(nodes))
        return Path(links, (), destination, nodes[-1], port), t1

    def _chosen(self, host: int, port: int, data: bytes) -> int:
        """The T1 that the host's T0 takes for this flow; when no link is up, one whose link is down."""
        group = self.clos.group_of(host)
        t0 = clos_model.t0_name(port, group)
        every = range(self.clos.spec.t1s_per_plane)
        up = [t1 for t1 in every if self._links[t0, clos_model.t1_name(port, t1)].up] or list(every)
        digest = blake2b(data[_ADDRESSES_AND_PORTS], digest_size=4, key=_SEED.pack(port, group)).digest()
        return up[int.from_bytes(digest) * len(up) >> 32]

    def cut(self, link: str) -> None:
        """See SimNetwork; the flows are hashed anew."""
        self._paths.clear()
        super().cut(link)

    def mend(self, link: str) -> None:
        """See SimNetwork; the flows are hashed anew."""
        self._paths.clear()
        super().mend(link)
