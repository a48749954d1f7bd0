"""The EVs of a queue pair and the rotation over them: which path the next packet takes (paper, section 3).

Rules
- Every plane has the same number of turns in a round, one for each EV in use, in an order drawn anew for each round.
- A retired EV is replaced by one of **the same plane**: by a backup (a good one not in use), else its turns go to the
  good ones of that plane by rotation, so that each has its equal share of them. So planes stay equally loaded,
  whatever happens inside one of them.
- A plane whose port is down at either end takes no part in the rotation, and is back at once when the port is.
- An EV whose port is busy keeps its turn until the port is free; the round does not end without it.
- The first SKIP that the rotation passes for a packet is GOOD afterwards, and not used for that packet; one whose time
  as SKIP has ended, because no packet came by, is GOOD when its turn comes.
- Fewer usable EVs than `min_active` there never are (as far as ports are up): beyond that, nothing is retired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Final

from agents.mrc.config import MAX_EVS
from agents.mrc.ev_state import USABLE, Cause, State, after
from agents.wire import ev as ev_format

if TYPE_CHECKING:
    from agents.mrc.scoreboard import Sent
    from agents.wire.frame import PathTemplate

GOOD: Final = State.GOOD  # asked for with every packet
SKIP: Final = State.SKIP
_PATH_SHIFT = 21  # plane and uplink are the top 11 bits of an EV

ChangeHandler = Callable[["Ev", State, State, Cause, int], None]  # EV, old, new, why, now


def path_of(ev: int) -> int:
    """The path that an EV names, as one number: plane and uplink without the spare bits."""
    return ev >> _PATH_SHIFT


class Ev:
    """An EV and what one queue pair knows of its path. The times are kept by LossDetector."""

    __slots__ = (
        "flight",
        "path",
        "plane",
        "rtt_ns",
        "skip_until_ns",
        "srtt_ns",
        "state",
        "template",
        "usable",
        "value",
    )  # fmt: skip

    def __init__(self, value: int, template: PathTemplate | None = None) -> None:
        self.value = value
        self.plane = ev_format.plane_of(value)
        self.path = path_of(value)
        self.template = template
        self.state = State.GOOD
        self.usable = True  # what USABLE says of the state
        self.flight: deque[Sent] = deque()  # transmissions over it, oldest first
        self.rtt_ns = 0  # last sample; 0: none yet
        self.srtt_ns = 0  # smoothed
        self.skip_until_ns = 0  # as SKIP


def choose(planes: int, uplinks: int, evs_per_plane: int | None, rng: Random) -> tuple[list[list[int]], int]:
    """(EVs by plane, turns per plane): for each path an EV at least, in random order, so that the first `turns` of a
    plane start in use and the rest are its backups; paths are shared only when there are more turns than paths.
    """
    turns = evs_per_plane if evs_per_plane is not None else min(uplinks, MAX_EVS // planes)
    if not 1 <= turns <= MAX_EVS // planes:
        raise ValueError(f"{turns} EVs per plane; with {planes} planes it can be 1 to {MAX_EVS // planes}")
    chosen = []
    for plane in range(planes):
        order = rng.sample(range(uplinks), uplinks)
        count = max(turns, uplinks)
        spares = rng.sample(range(ev_format.MAX_SPARE + 1), count)
        chosen.append([ev_format.make(plane, order[i % uplinks], spares[i]) for i in range(count)])
    return chosen, turns


class EvSet:
    """The EVs of one queue pair, their states, and the rotation over those in use."""

    def __init__(
        self,
        evs: list[list[Ev]],
        turns_per_plane: int,
        rng: Random,
        *,
        on_change: ChangeHandler,
        min_active: int = 1,
        retire: bool = True,
        skip_ns: int = 0,
    ) -> None:
        """`evs`: by plane, in order of preference. `on_change` hears of each change of a state. All planes are up.

        `skip_ns`: how long an EV stays SKIP at most.
        """
        self.turns_per_plane = turns_per_plane
        self.up_mask = (1 << len(evs)) - 1
        self._evs = evs
        self._rng = rng
        self._on_change = on_change
        self._min_active = min_active
        self._retire = retire
        self._skip_ns = skip_ns
        self._in_use: list[list[Ev]] = [[] for _ in evs]
        self._next_in_use = [0] * len(evs)  # whose the next turn of a plane is
        self._order: list[Ev] = []  # turns that this round still holds; the last is next
        self._paths_in_use = 0
        self._by_value = {ev.value: ev for plane_evs in evs for ev in plane_evs}
        self._by_path = {ev.path: ev for plane_evs in evs for ev in reversed(plane_evs)}
        for plane in range(len(evs)):
            self._choose_in_use(plane)

    def __iter__(self) -> Iterator[Ev]:
        """All EVs, whatever their state, by plane."""
        for plane_evs in self._evs:
            yield from plane_evs

    def get(self, value: int) -> Ev | None:
        """The EV of this value, or None."""
        return self._by_value.get(value)

    def on_path(self, path: int) -> Ev | None:
        """An EV that names this path (see `path_of`), or None."""
        return self._by_path.get(path)

    def any_usable(self, planes: int = -1) -> Ev | None:
        """A random one that could carry a packet now, on a plane of the bit mask; None when none of them is up."""
        planes &= self.up_mask
        found = [ev for evs in self._in_use for ev in evs if planes >> ev.plane & 1]
        return self._rng.choice(found) if found else None

    def in_use(self, plane: int) -> list[Ev]:
        """The EVs that share the turns of a plane; none when all its EVs are retired."""
        return self._in_use[plane]

    def set_planes_up(self, mask: int) -> None:
        """Bit p: plane p is up at both ends."""
        if mask != self.up_mask:
            self.up_mask = mask
            self._count_paths()

    def usable(self) -> int:
        """How many EVs could carry a packet: state and plane allow it."""
        return sum(ev.usable and self.up_mask >> ev.plane & 1 for ev in self)

    def apply(self, ev: Ev, cause: Cause, now: int) -> bool:
        """Let something happen to an EV; True when its state changed."""
        new = after(ev.state, cause)
        if new is ev.state:
            return False
        if cause in (Cause.LOST, Cause.ALWAYS_SKIP) and not self._may_retire(ev):
            return False
        old, ev.state = ev.state, new
        if new is SKIP:
            ev.skip_until_ns = now + self._skip_ns
        usable, ev.usable = ev.usable, new in USABLE
        if usable != ev.usable:
            self._choose_in_use(ev.plane)
        self._on_change(ev, old, new, cause, now)
        return True

    def draw(self, ready: int, now: int, avoid_path: int = -1) -> Ev | None:
        """The EV for the next packet, on a port of the bit mask `ready`; None while the ports whose turn it is are not.

        `avoid_path` (where a packet was lost before) is not taken as long as another path is in use.
        """
        ready &= self.up_mask
        if not ready or not self._paths_in_use:
            return None
        if self._paths_in_use == 1:
            avoid_path = -1
        order = self._order
        if order:  # nearly always the next one will do
            ev = order[-1]
            if ev.state is GOOD and ready >> ev.plane & 1 and ev.path != avoid_path:
                return order.pop()
        return self._search(ready, now, avoid_path)

    def _search(self, ready: int, now: int, avoid_path: int) -> Ev | None:
        """The first turn, from the next one on, that can be taken; see the rules of the module."""
        skip_passed = False
        for _ in range(3):  # what is left of this round, a new one, and another when all EVs were SKIP in that one
            order = self._order
            at = len(order) - 1
            only_avoided = True
            while at >= 0:
                ev = order[at]
                if not self.up_mask >> ev.plane & 1 or (not ev.usable and not self._replace(at)):
                    self._take(at)
                    at -= 1
                    continue
                ev = order[at]
                if ev.path == avoid_path:
                    pass
                elif not ready >> ev.plane & 1:
                    only_avoided = False
                elif ev.state is SKIP and not (now >= ev.skip_until_ns and self.apply(ev, Cause.SKIPPED_LONG, now)):
                    self._take(at)  # its turn passes
                    if not skip_passed:
                        skip_passed = self.apply(ev, Cause.PASSED, now)
                else:
                    self._take(at)
                    return ev
                at -= 1
            if not only_avoided:
                return None
            self._order = self._new_round() + order  # what is left of the old round comes first
        return None

    def _take(self, at: int) -> None:
        last = self._order.pop()
        if at < len(self._order):
            self._order[at] = last

    def _replace(self, at: int) -> bool:
        """A turn whose EV was retired in mid-round goes to another of its plane; False when there is none."""
        plane = self._order[at].plane
        if not self._in_use[plane]:
            return False
        self._order[at] = self._next(plane)
        return True

    def _next(self, plane: int) -> Ev:
        in_use = self._in_use[plane]
        at = self._next_in_use[plane] % len(in_use)
        self._next_in_use[plane] = at + 1
        return in_use[at]

    def _new_round(self) -> list[Ev]:
        order = []
        for plane, in_use in enumerate(self._in_use):
            if in_use and self.up_mask >> plane & 1:
                if len(in_use) == self.turns_per_plane:
                    order += in_use
                else:
                    order += [self._next(plane) for _ in range(self.turns_per_plane)]
        _shuffle(order, self._rng)
        return order

    def _may_retire(self, ev: Ev) -> bool:
        if not self._retire:
            return False
        if not self.up_mask >> ev.plane & 1:
            return True
        return self.usable() > self._min_active

    def _choose_in_use(self, plane: int) -> None:
        """Drop the unusable; fill up with backups, in order of preference."""
        in_use = [ev for ev in self._in_use[plane] if ev.usable]
        for ev in self._evs[plane]:
            if len(in_use) == self.turns_per_plane:
                break
            if ev.usable and ev not in in_use:
                in_use.append(ev)
        self._in_use[plane] = in_use
        self._count_paths()

    def _count_paths(self) -> None:
        self._paths_in_use = len({ev.path for evs in self._in_use for ev in evs if self.up_mask >> ev.plane & 1})


def _shuffle(order: list[Ev], rng: Random) -> None:
    """What `rng.shuffle(order)` does, with the same draws, but compiled: it is done for each round."""
    bits = rng.getrandbits
    for last in range(len(order) - 1, 0, -1):
        width = (last + 1).bit_length()
        at: int = bits(width)
        while at > last:
            at = bits(width)
        order[last], order[at] = order[at], order[last]
