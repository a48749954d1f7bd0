"""The EVs of a queue pair and the rotation over them: which path the next packet takes (paper, section 3).

Rules
- Every plane has the same number of slots. A slot names an EV; the rotation gives each slot one turn a round, in an
  order that is drawn anew for each round.
- A retired EV's slots go to another EV of **the same plane**: to a good one that holds no slot yet (a backup), else to
  the good one that holds fewest. So planes stay equally loaded, whatever happens inside one of them.
- A plane whose port is down at either end takes no part in the rotation; its slots stay as they are and are back at
  once when the port is.
- A slot whose port is busy keeps its turn until the port is free; the round does not end without it.
- Fewer usable EVs than `min_active` there never are (as far as ports are up): beyond that, nothing is retired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from agents.mrc.config import MAX_EVS
from agents.mrc.ev_state import USABLE, Cause, State, after
from agents.wire import ev as ev_format

if TYPE_CHECKING:
    from agents.mrc.scoreboard import Sent
    from agents.wire.frame import PathTemplate

_PATH_SHIFT = 21  # plane and uplink are the top 11 bits of an EV

ChangeHandler = Callable[["Ev", State, State, Cause, int], None]  # EV, old, new, why, now


def path_of(ev: int) -> int:
    """The path that an EV names, as one number: plane and uplink without the spare bits."""
    return ev >> _PATH_SHIFT


class Ev:
    """An EV and what one queue pair knows of its path. `slots` is kept by EvSet, the times by LossDetector."""

    __slots__ = (
        "flight",
        "path",
        "patience_ns",
        "plane",
        "rtt_ns",
        "rtt_var_ns",
        "slots",
        "state",
        "template",
        "value",
    )  # fmt: skip

    def __init__(self, value: int, template: PathTemplate | None = None) -> None:
        self.value = value
        self.plane = ev_format.plane_of(value)
        self.path = path_of(value)
        self.template = template
        self.state = State.GOOD
        self.slots = 0
        self.flight: deque[Sent] = deque()  # transmissions over it, oldest first
        self.rtt_ns = 0  # last sample; 0: none yet
        self.rtt_var_ns = 0
        self.patience_ns = 0


def choose(planes: int, uplinks: int, evs_per_plane: int | None, rng: Random) -> tuple[list[list[int]], int]:
    """(EVs by plane, slots per plane): for each path an EV at least, in random order, so that the first `slots` of a
    plane start active and the rest are its backups; paths are shared only when there are more slots than paths.
    """
    slots = evs_per_plane if evs_per_plane is not None else min(uplinks, MAX_EVS // planes)
    if not 1 <= slots <= MAX_EVS // planes:
        raise ValueError(f"{slots} EVs per plane; with {planes} planes it can be 1 to {MAX_EVS // planes}")
    chosen = []
    for plane in range(planes):
        order = rng.sample(range(uplinks), uplinks)
        count = max(slots, uplinks)
        spares = rng.sample(range(ev_format.MAX_SPARE + 1), count)
        chosen.append([ev_format.make(plane, order[i % uplinks], spares[i]) for i in range(count)])
    return chosen, slots


class EvSet:
    """The EVs of one queue pair, their states and slots, and the rotation."""

    def __init__(
        self,
        evs: list[list[Ev]],
        slots_per_plane: int,
        rng: Random,
        *,
        on_change: ChangeHandler,
        min_active: int = 1,
        retire: bool = True,
    ) -> None:
        """`evs`: by plane, in order of preference. `on_change` hears of each change of a state. All planes are up."""
        self.slots_per_plane = slots_per_plane
        self.up_mask = (1 << len(evs)) - 1
        self._evs = evs
        self._rng = rng
        self._on_change = on_change
        self._min_active = min_active
        self._retire = retire
        self._slots: list[Ev | None] = [None] * (slots_per_plane * len(evs))
        self._order: list[int] = []  # slots that have not had their turn in this round; the last is next
        self._paths_in_use = 0
        self._by_value = {ev.value: ev for plane_evs in evs for ev in plane_evs}
        self._by_path = {ev.path: ev for plane_evs in evs for ev in reversed(plane_evs)}
        for plane in range(len(evs)):
            self._rebalance(plane)

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

    def any_usable(self) -> Ev | None:
        """A random one that could carry a packet now; None when no plane is up."""
        found = [ev for ev in self._slots if ev is not None and self.up_mask >> ev.plane & 1]
        return self._rng.choice(found) if found else None

    def slots(self, plane: int) -> list[Ev | None]:
        """The EVs in the slots of a plane; None where the plane has no usable EV left."""
        return self._slots[plane * self.slots_per_plane : (plane + 1) * self.slots_per_plane]

    def set_planes_up(self, mask: int) -> None:
        """Bit p: plane p is up at both ends."""
        if mask != self.up_mask:
            self.up_mask = mask
            self._count_paths()

    def usable(self) -> int:
        """How many EVs could carry a packet: state and plane allow it."""
        return sum(ev.state in USABLE and self.up_mask >> ev.plane & 1 for ev in self)

    def apply(self, ev: Ev, cause: Cause, now: int) -> bool:
        """Let something happen to an EV; True when its state changed."""
        new = after(ev.state, cause)
        if new is ev.state:
            return False
        if cause in (Cause.LOST, Cause.ALWAYS_SKIP) and not self._may_retire(ev):
            return False
        old, ev.state = ev.state, new
        if (old in USABLE) != (new in USABLE):
            self._rebalance(ev.plane)
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
        skip_passed = False
        for _ in range(2):  # what is left of this round, then a new one
            order = self._order
            at = len(order) - 1
            only_avoided = True
            while at >= 0:
                slot = order[at]
                ev = self._slots[slot]
                if ev is None or not self.up_mask >> ev.plane & 1:
                    self._take(at)
                elif ev.path == avoid_path:
                    pass
                elif not ready >> ev.plane & 1:
                    only_avoided = False
                elif ev.state is State.SKIP:
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

    def _new_round(self) -> list[int]:
        up = self.up_mask
        order = [slot for slot, ev in enumerate(self._slots) if ev is not None and up >> ev.plane & 1]
        self._rng.shuffle(order)
        return order

    def _may_retire(self, ev: Ev) -> bool:
        if not self._retire:
            return False
        if not self.up_mask >> ev.plane & 1:
            return True
        return self.usable() > self._min_active

    def _rebalance(self, plane: int) -> None:
        """Give the slots of a plane to its usable EVs, evenly, moving as few as possible."""
        usable = [ev for ev in self._evs[plane] if ev.state in USABLE]
        for ev in self._evs[plane]:
            ev.slots = 0
        mine = range(plane * self.slots_per_plane, (plane + 1) * self.slots_per_plane)
        empty = []
        for slot in mine:
            holder = self._slots[slot]
            if holder is not None and holder.state in USABLE:
                holder.slots += 1
            else:
                self._slots[slot] = None
                empty.append(slot)
        if usable:
            for slot in empty:
                self._assign(slot, min(usable, key=_slots_held))
            while True:
                richest, poorest = max(usable, key=_slots_held), min(usable, key=_slots_held)
                if richest.slots - poorest.slots <= 1:
                    break
                richest.slots -= 1
                self._assign(self._rng.choice([slot for slot in mine if self._slots[slot] is richest]), poorest)
        self._count_paths()

    def _assign(self, slot: int, ev: Ev) -> None:
        self._slots[slot] = ev
        ev.slots += 1

    def _count_paths(self) -> None:
        self._paths_in_use = len({ev.path for ev in self._slots if ev is not None and self.up_mask >> ev.plane & 1})


def _slots_held(ev: Ev) -> int:
    return ev.slots
