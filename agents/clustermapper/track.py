"""One probed path of a host: what became of its probes, and what that says about it.

    UNKNOWN -> GOOD: DEAD_RUN probes in a row are back
    any     -> DEAD: DEAD_RUN lost in a row;  DEAD -> UNKNOWN: one came back, and what was before is forgotten
    any     -> LOSSY: more lost than a healthy path would lose;  LOSSY -> UNKNOWN: so many good ones in a row as a path
               that loses half of what this one did would hardly have

A probe that comes back after it was taken for lost was late, not lost: the verdict is made anew without that loss.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from agents.clustermapper.evidence import lossy_scale, probes_to_clear
from agents.clustermapper.settings import DEAD_RUN, RTTS, WINDOW


class PathState(Enum):
    """What a host thinks of one of its paths."""

    UNKNOWN = "unknown"
    GOOD = "good"
    LOSSY = "lossy"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathReport:
    """A path as its host sees it; `t1` None: to the T0 and back. Times in ns, 0 for none yet."""

    plane: int
    t1: int | None
    state: str
    since_ns: int  # when the state began; of DEAD: when the first of the lost probes was sent
    carrier: bool  # of the NIC port
    sent: int  # since probing began
    lost: int
    late: int  # came back after they were taken for lost
    marked: int  # came back with a congestion mark
    window: int  # probes that the verdict can rest on: WINDOW at most, all after the path was last forgotten
    losses: list[int]  # the lost ones among these: how many probes were resolved after each, the latest first
    lost_run: int  # the latest, all lost
    rtt_min_ns: int
    rtt_p50_ns: int
    rtt_p99_ns: int

    def lost_of(self, newest: int) -> int:
        """How many of so many newest probes were lost."""
        return bisect_left(self.losses, newest)


class Track:
    """The probes of one path."""

    def __init__(self, plane: int, t1: int | None, now: int) -> None:
        self.plane = plane
        self.t1 = t1
        self.state = PathState.UNKNOWN
        self.since_ns = now
        self.pending: deque[tuple[int, int]] = deque()  # (number, sent), in the order of sending
        self.smooth_rtt_ns = 0
        self.sent = self.lost = self.late = self.marked = 0
        self.lost_run = self.good_run = 0
        self._end = 0  # probes resolved; a probe's place is how many were before it
        self._start = 0  # what was before says nothing any more
        self._losses: deque[int] = deque()  # places of the lost ones in the window
        self._lost_at: dict[int, int] = {}  # the same by probe number
        self._rtts: deque[int] = deque(maxlen=RTTS)
        self._good_sent_ns = -1
        self._first_lost_ns = 0
        self._alive_ns = 0  # when the probe was sent by which a dead path showed that it is alive again
        self._loss_seen = 0.0  # of LOSSY

    @property
    def window(self) -> int:
        """Probes that the verdict can rest on."""
        return min(self._end - self._start, WINDOW)

    def lost_of(self, newest: int) -> int:
        """How many of so many newest probes were lost."""
        first = self._end - newest
        return sum(1 for place in takewhile(lambda place: place >= first, reversed(self._losses)))

    def returned(self, sent_ns: int, marked: bool, now: int) -> None:
        """A probe is back in time."""
        self._take(sent_ns, marked, now)
        if self.state is PathState.DEAD:
            self.forget(now)
            self._alive_ns = sent_ns
        self.lost_run = 0
        self.good_run += 1
        self._advance()
        if self.state is PathState.UNKNOWN:
            if self.good_run >= DEAD_RUN:
                self._become(PathState.GOOD, now)
        elif self.state is PathState.LOSSY and self.good_run >= max(DEAD_RUN, probes_to_clear(self._loss_seen / 2)):
            self.forget(now)

    def missed(self, number: int, sent_ns: int, now: int) -> None:
        """A probe has not come back in time."""
        self.lost += 1
        if sent_ns < self._alive_ns:  # it was sent into the dead path, and what was then is forgotten
            return
        if sent_ns > self._good_sent_ns:  # otherwise the path was good after it
            if not self.lost_run:
                self._first_lost_ns = sent_ns
            self.lost_run += 1
        self.good_run = 0
        self._losses.append(self._end)
        self._lost_at[number] = self._end
        self._advance()
        if self.lost_run >= DEAD_RUN:
            if self.state is not PathState.DEAD:
                self._become(PathState.DEAD, self._first_lost_ns)
            return
        if self.state is not PathState.DEAD and (scale := lossy_scale(self.lost_of, self.window)) is not None:
            self._loss_seen = self.lost_of(scale) / scale
            if self.state is not PathState.LOSSY:
                self._become(PathState.LOSSY, now)

    def came_late(self, number: int, sent_ns: int, marked: bool, now: int) -> None:
        """A probe that was taken for lost is back."""
        self._take(sent_ns, marked, now)
        self.late += 1
        self.lost -= 1
        place = self._lost_at.pop(number, None)
        if place is not None:
            self._losses.remove(place)
        self.lost_run = 0
        if self.state is PathState.DEAD:
            self.forget(now)
            self._alive_ns = sent_ns
        elif self.state is PathState.LOSSY and lossy_scale(self.lost_of, self.window) is None:
            self._become(PathState.GOOD, now)

    def forget(self, now: int) -> None:
        """Begin anew: what was seen says nothing about now."""
        self._start = self._end
        self._losses.clear()
        self._lost_at.clear()
        self.lost_run = self.good_run = 0
        self._become(PathState.UNKNOWN, now)

    def report(self, carrier: bool) -> PathReport:
        """What is known now."""
        rtts = sorted(self._rtts)
        return PathReport(
            plane=self.plane,
            t1=self.t1,
            state=self.state.value if carrier else PathState.DEAD.value,
            since_ns=self.since_ns,
            carrier=carrier,
            sent=self.sent,
            lost=self.lost,
            late=self.late,
            marked=self.marked,
            window=self.window,
            losses=[self._end - 1 - place for place in reversed(self._losses)],
            lost_run=self.lost_run,
            rtt_min_ns=rtts[0] if rtts else 0,
            rtt_p50_ns=rtts[len(rtts) // 2] if rtts else 0,
            rtt_p99_ns=rtts[len(rtts) * 99 // 100] if rtts else 0,
        )

    def _take(self, sent_ns: int, marked: bool, now: int) -> None:
        rtt_ns = now - sent_ns
        self._rtts.append(rtt_ns)
        self.smooth_rtt_ns += (rtt_ns - self.smooth_rtt_ns) >> 3 if self.smooth_rtt_ns else rtt_ns
        self.marked += marked
        self._good_sent_ns = max(self._good_sent_ns, sent_ns)

    def _advance(self) -> None:
        self._end += 1
        if self._losses and self._losses[0] < self._end - WINDOW:
            place = self._losses.popleft()
            self._lost_at = {number: at for number, at in self._lost_at.items() if at != place}

    def _become(self, state: PathState, since_ns: int) -> None:
        self.state = state
        self.since_ns = since_ns
