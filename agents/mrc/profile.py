"""EV profiles: what a controller says about the EVs of queue pairs, shaped like those of `mrc_ctl.h`.

A profile goes INIT -> OFFLINE (what kind and how many) -> ONLINE (in use) and back; ONLINE it cannot be changed, and it
stays ONLINE while queue pairs use it. Modes: `explicit`, the controller gives every EV; `generated`, the NIC makes
them within the bounds of the format's fields; `ecmp` (AUTO there), the EV is entropy and no path: for fabrics that
hash. In the other two an EV names plane and T0 uplink, and the SRv6 address follows from the template of
`agents.wire.address`.

The controller alone makes EVs DENIED, in all queue pairs of the profile at once, and gives them back. It hears of EVs
that become GOOD or ASSUMED_BAD by events; those that found the queue full are counted by the next one. Lists of EVs are
answered entry by entry [ours: one call for many; `mrc_ctl.h` has one call per EV].
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, IntFlag
from itertools import product
from math import prod
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from agents.mrc.config import MAX_EVS
from agents.mrc.ev_set import choose, path_of
from agents.mrc.ev_state import State
from agents.wire import ev as ev_format

if TYPE_CHECKING:
    from agents.mrc.qp import MrcQueuePair

EV_BITS = 32
_EVENT_QUEUE = 1024
_MOST_COMBINATIONS = 1 << 16


class ProfileState(Enum):
    """States of a profile."""

    INIT = "INIT"
    OFFLINE = "OFFLINE"
    ONLINE = "ONLINE"


class EvMode(Enum):
    """Where the EVs of a profile come from."""

    ECMP = "ecmp"
    EXPLICIT = "explicit"
    GENERATED = "generated"


class EvEvent(IntFlag):
    """What the controller wants to hear of; numbers of `mrc_ctl.h`."""

    NONE = 0
    GOOD = 1 << 0
    ASSUMED_BAD = 1 << 1


class ProfileError(ValueError):
    """The controller asked for what cannot be; `code` is the errno that `mrc_ctl.h` names."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code


class EntryResult(NamedTuple):
    """What became of one EV of a list; `code` is "" when it was done."""

    ev: int
    code: str


class ProfileEvent(NamedTuple):
    """An EV of some queue pair changed its state."""

    profile_id: int
    qpn: int
    ev: int
    state: str
    drop_count: int  # events lost between the one before and this one


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatField:
    """Some bits of an EV: those of `mask` run from `min_val` to `max_val`, the others are `init_val`'s."""

    width: int
    max_val: int
    min_val: int = 0
    init_val: int = 0
    mask: int = -1

    def __post_init__(self) -> None:
        """Raises ProfileError."""
        if not 0 <= self.min_val <= self.max_val < 1 << self.width or not 0 <= self.init_val < 1 << self.width:
            raise ProfileError("EINVAL", f"a field of {self.width} bits cannot hold {self.min_val}..{self.max_val}")

    def values(self) -> list[int]:
        """Every value it takes."""
        mask = self.mask & (1 << self.width) - 1
        fixed = self.init_val & ~mask
        return sorted({fixed | value & mask for value in range(self.min_val, self.max_val + 1)})


def path_fields(planes: int, uplinks: int) -> tuple[FormatField, ...]:
    """The format of this project's EVs (`agents.wire.ev`): plane, uplink, and spare bits that are drawn at random."""
    spare = EV_BITS - 11
    return FormatField(width=3, max_val=planes - 1), FormatField(width=8, max_val=uplinks - 1), FormatField(
        width=spare, max_val=0
    )  # fmt: skip


_STEPS = {
    (ProfileState.INIT, ProfileState.OFFLINE),
    (ProfileState.OFFLINE, ProfileState.ONLINE),
    (ProfileState.ONLINE, ProfileState.OFFLINE),
    (ProfileState.OFFLINE, ProfileState.INIT),
}


def check_step(before: ProfileState, after: ProfileState, *, changed: bool, users: list[int]) -> None:
    """Raises ProfileError when a profile cannot go that way, or cannot be `changed` on it."""
    if after is not before and (before, after) not in _STEPS:
        raise ProfileError("EINVAL", f"a profile does not go from {before.value} to {after.value}")
    if changed and after is ProfileState.INIT and before is not after:
        raise ProfileError("EINVAL", "a profile that goes back to INIT forgets its settings, and takes no others")
    if before is ProfileState.ONLINE:
        if changed:
            raise ProfileError("EINVAL", "a profile that is ONLINE cannot be changed")
        if after is ProfileState.OFFLINE and users:
            raise ProfileError("EBUSY", f"{len(users)} queue pairs use this profile")


class EvProfile:
    """One profile of a NIC with `planes` planes and `uplinks` paths in each."""

    def __init__(self, profile_id: int, planes: int, uplinks: int, rng: Random) -> None:
        self.profile_id = profile_id
        self._planes = planes
        self._uplinks = uplinks
        self._rng = rng
        self._queue_pairs: list[MrcQueuePair] = []
        self._events: deque[ProfileEvent] = deque()
        self._dropped = 0
        self._forget()

    def _forget(self) -> None:
        self.state = ProfileState.INIT
        self.mode: EvMode | None = None
        self.count = 0
        self.min_active = 1
        self.event_mask = EvEvent.GOOD | EvEvent.ASSUMED_BAD
        self.fields = path_fields(self._planes, self._uplinks)
        self._evs: list[int | None] = []  # None: not populated yet
        self._denied: set[int] = set()

    # The controller

    def modify(
        self,
        *,
        state: ProfileState | None = None,
        mode: EvMode | None = None,
        count: int | None = None,
        min_active: int | None = None,
        event_mask: EvEvent | None = None,
        fields: tuple[FormatField, ...] | None = None,
    ) -> None:
        """Change what is given, and then the state. Nothing changes when ProfileError is raised."""
        target = self.state if state is None else state
        changes = (mode, count, min_active, event_mask, fields)
        changed = any(one is not None for one in changes)
        check_step(self.state, target, changed=changed, users=self.users)
        if target is ProfileState.INIT and self.state is ProfileState.OFFLINE:
            self._forget()
            return
        mode = self.mode if mode is None else mode
        count = self.count if count is None else count
        min_active = self.min_active if min_active is None else min_active
        fields = self.fields if fields is None else fields
        if changed or target is not ProfileState.INIT:
            self._check(mode, count, min_active, fields)
        evs = self._evs
        if mode is EvMode.EXPLICIT and (mode, count) != (self.mode, self.count):
            evs = [None] * count
        elif mode is EvMode.GENERATED and (mode, count, fields) != (self.mode, self.count, self.fields):
            evs = list(self._generate(count, fields))
        if target is ProfileState.ONLINE and mode is EvMode.EXPLICIT:
            self._check_populated(evs)
        self.mode, self.count, self.min_active, self.fields, self._evs = mode, count, min_active, fields, evs
        if event_mask is not None:
            self.event_mask = event_mask
        self.state = target

    def replace(self, entries: list[tuple[int | None, int]]) -> list[EntryResult]:
        """(EV in the array or None for a free place, the EV to put there) for each; explicit and OFFLINE only."""
        if self.mode is not EvMode.EXPLICIT or self.state is not ProfileState.OFFLINE:
            raise ProfileError("EINVAL", "only the EVs of an explicit profile that is OFFLINE can be replaced")
        results = []
        for current, new in entries:
            code = ""
            if current not in self._evs:
                code = "ENOENT"
            elif not self._names_a_path(new) or (new in self._evs and new != current):
                code = "EINVAL"
            else:
                self._evs[self._evs.index(current)] = new
            results.append(EntryResult(new, code))
        return results

    def set_state(self, evs: list[int], state: State, now: int) -> list[EntryResult]:
        """DENIED or GOOD for each of these EVs, in every queue pair of the profile."""
        if state not in (State.DENIED, State.GOOD):
            raise ProfileError("EINVAL", f"a controller does not make EVs {state.value}")
        results = []
        for ev in evs:
            known = ev in self._evs
            if known:
                (self._denied.add if state is State.DENIED else self._denied.discard)(ev)
                for queue_pair in self._queue_pairs:
                    (queue_pair.deny if state is State.DENIED else queue_pair.allow)(ev, now)
            results.append(EntryResult(ev, "" if known else "ENOENT"))
        return results

    def evs(self) -> list[tuple[int, str]]:
        """(EV, state) of the array: ASSUMED_BAD when it is in any queue pair, UNKNOWN when no queue pair uses it."""
        bad = {
            info.ev for queue_pair in self._queue_pairs for info in queue_pair.ev_map() if info.state == "ASSUMED_BAD"
        }
        found = []
        for ev in self._evs:
            if ev is not None:
                usual = "GOOD" if self._queue_pairs else "UNKNOWN"
                found.append((ev, "DENIED" if ev in self._denied else "ASSUMED_BAD" if ev in bad else usual))
        return found

    def poll_events(self, limit: int) -> list[ProfileEvent]:
        """The oldest events, which are then gone from here."""
        return [self._events.popleft() for _ in range(min(limit, len(self._events)))]

    # The queue pairs

    @property
    def users(self) -> list[int]:
        """Numbers of the queue pairs that use it."""
        return [queue_pair.qpn for queue_pair in self._queue_pairs]

    def choose(self, uplinks: int) -> tuple[list[list[int]], int]:
        """(EVs by plane, turns per plane) for a queue pair to a host that `uplinks` paths per plane lead to."""
        if self.state is not ProfileState.ONLINE:
            raise ProfileError("EINVAL", f"EV profile {self.profile_id} is {self.state.value}, not ONLINE")
        if self.mode is EvMode.ECMP:
            return choose(self._planes, uplinks, self.count // self._planes, self._rng)
        by_plane: list[list[int]] = [[] for _ in range(self._planes)]
        for ev in self._evs:
            assert ev is not None, "a profile that is ONLINE is populated"
            if ev_format.uplink_of(ev) >= uplinks:
                raise ProfileError("EINVAL", f"EV {ev:#010x} names no path to that host")
            by_plane[ev_format.plane_of(ev)].append(ev)
        return by_plane, self.count // self._planes

    def attach(self, queue_pair: MrcQueuePair) -> None:
        """A queue pair uses the profile from now on; what is DENIED is DENIED there as well."""
        self._queue_pairs.append(queue_pair)
        for ev in self._denied:
            queue_pair.deny(ev, 0)

    def detach(self, queue_pair: MrcQueuePair) -> None:
        """It does no more."""
        self._queue_pairs.remove(queue_pair)

    def changed(self, qpn: int, ev: int, state: State) -> None:
        """An EV of a queue pair changed its state."""
        wanted = {State.GOOD: EvEvent.GOOD, State.ASSUMED_BAD: EvEvent.ASSUMED_BAD}.get(state, EvEvent.NONE)
        if not wanted & self.event_mask:
            return
        if len(self._events) >= _EVENT_QUEUE:
            self._dropped += 1
            return
        self._events.append(ProfileEvent(self.profile_id, qpn, ev, state.value, self._dropped))
        self._dropped = 0

    # Checks

    def _check(self, mode: EvMode | None, count: int, min_active: int, fields: tuple[FormatField, ...]) -> None:
        if mode is None:
            raise ProfileError("EINVAL", "a profile needs a mode")
        if not self._planes <= count <= MAX_EVS or count % self._planes:
            raise ProfileError(
                "EINVAL", f"{count} EVs; it has to be a multiple of {self._planes} (planes), {MAX_EVS} at most"
            )
        if not 1 <= min_active <= count:
            raise ProfileError("EINVAL", f"{min_active} EVs cannot stay active of {count}")
        if sum(field.width for field in fields) != EV_BITS:
            raise ProfileError("EINVAL", f"the widths of the fields have to make {EV_BITS} bits")
        if prod(field.max_val - field.min_val + 1 for field in fields) > _MOST_COMBINATIONS:
            raise ProfileError("E2BIG", f"the fields make more than {_MOST_COMBINATIONS} EVs")

    def _check_populated(self, evs: list[int | None]) -> None:
        per_plane = [0] * self._planes
        for ev in evs:
            if ev is None:
                raise ProfileError("EINVAL", "not every EV of the explicit array is populated")
            per_plane[ev_format.plane_of(ev)] += 1
        if len(set(per_plane)) > 1:
            raise ProfileError("EINVAL", f"planes have to be equally loaded, and have {per_plane} EVs")

    def _names_a_path(self, ev: int) -> bool:
        return (
            0 <= ev < 1 << EV_BITS
            and ev_format.plane_of(ev) < self._planes
            and ev_format.uplink_of(ev) < self._uplinks
            and ev_format.source_port(ev) >= ev_format.SOURCE_PORT_BASE
        )

    def _generate(self, count: int, fields: tuple[FormatField, ...]) -> list[int]:
        """As many from each plane, paths shared only when there are more EVs than paths in the fields' bounds."""
        bounds: dict[int, set[int]] = {plane: set() for plane in range(self._planes)}
        for values in product(*(field.values() for field in fields)):
            ev = 0
            for field, value in zip(fields, values, strict=True):
                ev = ev << field.width | value
            plane, uplink = ev_format.plane_of(ev), ev_format.uplink_of(ev)
            if plane in bounds and uplink < self._uplinks:
                bounds[plane].add(uplink)
        chosen = []
        for plane, found in bounds.items():
            if not found:
                raise ProfileError("EINVAL", f"the fields name no path of plane {plane}")
            uplinks = self._rng.sample(sorted(found), len(found))
            each = count // self._planes
            spares = self._rng.sample(range(ev_format.MAX_SPARE + 1), each)
            chosen += [ev_format.make(plane, uplinks[i % len(uplinks)], spares[i]) for i in range(each)]
        assert len({(path_of(ev), ev) for ev in chosen}) == count
        return chosen
