"""A host at the far end: the ways to it, and which of its ports are down.

Shared by all queue pairs to that host. The state of the peer's ports comes by Port Status Update, which is numbered
and confirmed, and by the bitmap in each SACK, which is not: a SACK may have been overtaken by an update on another
path. So for one round trip after an update, SACKs are not asked about ports.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from agents.mrc.ev_set import path_of
from agents.wire import ev as ev_format
from agents.wire.frame import PathTemplate

if TYPE_CHECKING:
    from agents.mrc.qp import MrcQueuePair

_TEMPLATE_LIMIT = 2048  # EVs that a peer may make us answer on; then the cache starts anew
_ID_BITS = 16


class Peer:
    """What this NIC knows about one other host."""

    def __init__(
        self,
        host: int,
        address: bytes,
        *,
        planes: int,
        uplinks: int,
        make_template: Callable[[int], PathTemplate],
        rng: Random,
        hold_ns: int,
    ) -> None:
        """`uplinks`: T0 uplinks that lead there; `make_template`: the path of an EV; `hold_ns`: about a round trip."""
        self.host = host
        self.address = address
        self.planes = planes
        self.uplinks = uplinks
        # By port: the paths that a packet which comes in there can have taken.
        self.paths = [frozenset(path_of(ev_format.make(plane, up)) for up in range(uplinks)) for plane in range(planes)]
        self.ports_down = 0  # bit p: the peer's port p is down
        self.queue_pairs: list[MrcQueuePair] = []
        self._make_template = make_template
        self._templates: dict[int, PathTemplate] = {}
        self._rng = rng
        self._hold_ns = hold_ns
        self._heard_id: int | None = None
        self._hold_until_ns = 0

    def knows(self, ev: int) -> bool:
        """Whether an EV from outside names a path that exists."""
        plane = ev_format.plane_of(ev)
        return plane < self.planes and path_of(ev) in self.paths[plane]

    def template(self, ev: int) -> PathTemplate:
        """How packets to this peer over `ev` start."""
        template = self._templates.get(ev)
        if template is None:
            if len(self._templates) >= _TEMPLATE_LIMIT:
                self._templates.clear()
            template = self._templates[ev] = self._make_template(ev)
        return template

    def any_ev(self, planes_up: int) -> int | None:
        """Some EV on a plane of the bit mask that the peer has up as well; None when there is none."""
        planes = [plane for plane in range(self.planes) if planes_up & ~self.ports_down & 1 << plane]
        if not planes:
            return None
        spare = self._rng.randrange(ev_format.MAX_SPARE + 1)
        return ev_format.make(self._rng.choice(planes), self._rng.randrange(self.uplinks), spare)

    def updated(self, request_id: int, ports_down: int, now: int) -> None:
        """A Port Status Update came in; an older one than the last is ignored."""
        half = 1 << _ID_BITS - 1
        if self._heard_id is not None and (request_id - self._heard_id) % (2 * half) >= half:
            return
        self._heard_id = request_id
        self._hold_until_ns = now + self._hold_ns
        self._apply(ports_down, now)

    def reported(self, ports_down: int, now: int) -> None:
        """A SACK came in with this bitmap."""
        if ports_down != self.ports_down and now >= self._hold_until_ns:
            self._apply(ports_down, now)

    def _apply(self, ports_down: int, now: int) -> None:
        changed = self.ports_down ^ ports_down
        self.ports_down = ports_down
        if changed:
            for queue_pair in self.queue_pairs:
                queue_pair.peer_ports_changed(now)
