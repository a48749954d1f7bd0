"""When a packet that no report mentions is lost, without a single comparison against the wall clock.

Paths differ in delay, and the two agents share a machine with everything else: each may be late by many round trips.
So the evidence is always another packet. A SACK that covers a PSN and lacks it makes it lost when

- "overtaken": later packets over the same EV have arrived (one path keeps its packets in order; two, because one may
  slip past another between two cores), or
- "overdue": another packet has arrived that should have come later, by more than a margin. A packet should arrive one
  round trip of its EV after it was sent. A packet of the same plane is a fair comparison: both wait in the same port's
  queues at both ends, so a late agent delays both. One of another plane counts only with half a round trip on top.

The margin, RACK's reorder window (RFC 8985, section 6.2), is half a round trip for packets of the same plane. That does
not tell a loss from a queue, the less so the more unevenly a sender sends. So the last one that has arrived must
also be the third packet of its plane, or a later one, that was sent after the one in question: TCP's threshold of
duplicates (RFC 5681), in each plane for itself, which is one queue at both ends.

By packets of another plane it is judged with more patience: half as much again as the latest that a packet of the plane
has been lately, but at least half and at most 3/4 of a round trip, and never less than a few packets of queue. So it is
by all packets until there are enough samples of the plane, and then for 4 times the mean deviation, as TCP's timer has
it, if that is more.

When a packet taken for lost arrives after all, all of this is stretched for a while. After a loss the other paths of
the plane carry more, and their queues grow: as long as that path is out of use, and for some round trips after that,
they are given up to twice that, the less the more paths share the traffic.

Time counts from when a packet leaves the port, which is later than when it was sent if the one before it still holds
the port: of a message that goes out at once, later packets are evidence against earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from agents.mrc.arrivals import BLOCK
from agents.mrc.config import MrcConfig
from agents.mrc.ev_set import Ev
from agents.mrc.scoreboard import FLYING, Scoreboard, Sent

_VAR_FACTOR = 4
_LATER_PACKETS = 3  # of the plane, to tell a loss from a queue
_WHOLE = 1000
_LATE_SAMPLES = 512  # per plane: what is late lately
_LOW_SAMPLES = 128  # more than wait in one batch when this agent is late
_SHAKEN_RTTS = 8
_SHAKEN_PATHS = 4  # of a plane with so many, one's traffic on the others doubles the margin
_STRETCH_STEP = 1.5
_STRETCH_MAX = 4.0
_STRETCH_DECAY = 1 / 4096  # per sample


class _Plane:
    """What is known of a plane as a whole; the fallback for EVs without samples."""

    __slots__ = (
        "asked_ns",
        "front_ns",
        "front_order",
        "late_ns",
        "late_samples",
        "low_ns",
        "next_late_ns",
        "next_low_ns",
        "paths",
        "rtt_ns",
        "samples",
        "settled",
        "shaken_by",
        "shaken_ns",
        "var_ns",
    )

    def __init__(self) -> None:
        self.asked_ns = -1  # when the last reliability probe went that was answered
        self.low_ns = 0  # the shortest round trip lately
        self.next_low_ns = 0  # of the samples that will replace it
        self.samples = 0
        self.late_ns = 0  # how far behind the front the latest of the last packets arrived
        self.next_late_ns = 0  # of the samples that will replace it
        self.late_samples = 0
        self.settled = False  # whether late_ns is known
        # The EV that lost a packet last: until the front is at `shaken_ns`, and while it is out of use, its traffic
        # is on the others.
        self.shaken_ns = 0
        self.shaken_by: Ev | None = None
        self.paths: set[int] = set()  # those that were sampled
        self.front_ns = 0  # a packet that should have arrived before this moment had the time to
        self.front_order = -1  # of the last transmission that has arrived, as they were sent
        self.rtt_ns = 0
        self.var_ns = 0


class LossDetector:
    """Round trip times of the paths of one queue pair, and the verdicts that follow from them."""

    def __init__(self, config: MrcConfig, board: Scoreboard, planes: int) -> None:
        self._board = board
        self._planes = [_Plane() for _ in range(planes)]
        self._front_ns = 0  # the furthest of all planes
        self._suspects: list[Sent] = []  # overtaken, but not yet in a report
        self._initial_rtt_ns = config.initial_rtt_ns
        self._floor_ns = config.reorder_floor_ns
        self._rto_min_ns = config.rto_min_ns
        self._overtaken_threshold = config.overtaken_threshold
        self._stretch = 1.0
        self._min_rtt_ns = 0
        self._packet_ns = config.initial_rtt_ns * 4096 // config.plane_bdp_bytes

    def arrived(self, record: Sent, now: int, timed: bool = True) -> int | None:
        """The report at `now` shows that this very transmission arrived. Returns its round trip time.

        Not `timed`: the report may be long after the arrival; no time is taken from it, and None returned.
        """
        ev = record.ev
        if now - record.departs_ns < record.departs_ns - record.sent_ns:
            # The way takes several times what a port takes for a packet: this one did not wait there, as at an idle
            # port that lets a burst go at once. (Else the sample might be less than nothing.)
            record.departs_ns = record.sent_ns
        sample = now - record.departs_ns
        plane = self._planes[ev.plane]
        if timed:
            late = plane.front_ns - record.departs_ns - self.expected_ns(ev)
            if late > plane.next_late_ns:
                plane.next_late_ns = late
            plane.late_samples += 1
            if plane.late_samples == _LATE_SAMPLES:
                plane.late_ns, plane.next_late_ns, plane.late_samples = plane.next_late_ns, 0, 0
                plane.settled = True
            self._sample(ev, sample)
        self._advance(plane, record.departs_ns, sample if timed else 0)
        if record.order > plane.front_order:
            plane.front_order = record.order
        flight = ev.flight
        while flight and flight[0].fate is not FLYING:
            flight.popleft()
        for other in flight:
            if other.order >= record.order:
                break
            if other.fate is FLYING:
                other.overtaken += 1
                if other.overtaken == self._overtaken_threshold:
                    self._suspects.append(other)
        return sample if timed else None

    def probe_answered(self, ev: Ev, sent_ns: int, now: int) -> None:
        """A reliability probe that was sent over `ev` shows in the report at `now`: evidence like any packet, or more.

        It went because nothing had been heard of a packet for long, and stands for all that was not sent after it.
        """
        plane = self._planes[ev.plane]
        self._advance(plane, sent_ns, now - sent_ns)
        plane.asked_ns = sent_ns

    def too_soon(self, record: Sent, now: int) -> bool:
        """Whether a report at `now` is too soon to speak of this transmission: an earlier one must have arrived."""
        return now - record.sent_ns < self._min_rtt_ns

    def was_wrong(self) -> None:
        """A packet taken for lost has arrived after all: be more patient for a while."""
        self._stretch = min(_STRETCH_MAX, self._stretch * _STRETCH_STEP)

    def lost(self, cack: int, base: int) -> Iterator[tuple[Sent, str]]:
        """(transmission, cause) of what is lost, after a report of `cack` and of the 64 PSNs from `base` on."""
        if self._suspects:
            waiting = []
            for record in self._suspects:
                if record.fate is FLYING:
                    if _covers(cack, base, record.psn):
                        yield record, "overtaken"
                    else:
                        waiting.append(record)
            self._suspects = waiting
        far_front_ns = self._front_ns - max(self.rtt_ns() // 2, self._floor_ns)
        for number, plane in enumerate(self._planes):
            if plane.shaken_by is not None and not plane.shaken_by.usable:
                plane.shaken_ns = plane.front_ns + _SHAKEN_RTTS * self.rtt_ns()
            newest_ns = max(plane.front_ns, far_front_ns) - self._min_rtt_ns
            head = self._board.oldest(number)
            if head is None or head.departs_ns > newest_ns:
                continue
            for record in self._board.flying(number):
                if record.departs_ns > newest_ns:
                    break
                if self._overdue(record, plane, far_front_ns) and _covers(cack, base, record.psn):
                    plane.shaken_ns = plane.front_ns + _SHAKEN_RTTS * self.rtt_ns()
                    plane.shaken_by = record.ev
                    yield record, "overdue"

    def _overdue(self, record: Sent, plane: _Plane, far_front_ns: int) -> bool:
        due_ns = record.departs_ns + self.expected_ns(record.ev)
        if not plane.settled:
            return due_ns + self.far_window_ns(record.ev) <= max(plane.front_ns, far_front_ns)
        if due_ns + self.window_ns(record.ev) <= plane.front_ns:
            later = plane.front_order - record.order
            if later >= self._later_packets(record.ev, plane) or plane.asked_ns > record.departs_ns:
                return True
        return due_ns + self.far_window_ns(record.ev) <= far_front_ns

    def window_ns(self, ev: Ev) -> int:
        """The reorder window of packets over `ev`, when the evidence is a packet of their plane."""
        plane = self._planes[ev.plane]
        if not plane.settled:
            return self.far_window_ns(ev)
        return int(self._shaken((plane.rtt_ns or self.rtt_ns()) >> 1, ev, plane) * self._stretch)

    def far_window_ns(self, ev: Ev) -> int:
        """The same when it is one of another plane, or too little is known of their plane."""
        plane = self._planes[ev.plane]
        rtt = plane.rtt_ns or self.rtt_ns()
        if plane.settled:
            late = max(plane.late_ns, plane.next_late_ns)
            margin = min(max(rtt >> 1, late + (late >> 1)), 3 * rtt >> 2)
        else:
            margin = max(rtt >> 1, _VAR_FACTOR * plane.var_ns)
        return int(max(self._shaken(margin, ev, plane), self._floor_ns) * self._stretch)

    def _later_packets(self, ev: Ev, plane: _Plane) -> int:
        """How many packets of the plane have to be sent after one over `ev`, up to the last that has arrived."""
        return -int(-_LATER_PACKETS * self._shaken(_WHOLE, ev, plane) * self._stretch // _WHOLE)

    def _shaken(self, patience: int, ev: Ev, plane: _Plane) -> int:
        """The patience with packets over `ev`, or more when another path of the plane was lost."""
        by = plane.shaken_by
        if by is not None and ev.path != by.path and plane.shaken_ns > plane.front_ns:
            patience += patience * _SHAKEN_PATHS // max(_SHAKEN_PATHS, len(plane.paths))
        return patience

    def patience_ns(self, ev: Ev) -> int:
        """How long after it was sent a packet over `ev` may be waited for, by the clock, before somebody is asked."""
        return self.expected_ns(ev) + self.far_window_ns(ev)

    def expected_ns(self, ev: Ev) -> int:
        """How long after it left a packet over `ev` is reported as a rule."""
        plane = self._planes[ev.plane]
        return max(ev.srtt_ns, plane.rtt_ns) or self.rtt_ns()

    def first_overdue_ns(self) -> int | None:
        """When the first of what flies now becomes overdue; None when nothing flies."""
        first = None
        for number in range(len(self._planes)):
            head = self._board.oldest(number)
            if head is not None:
                due = head.departs_ns + self.patience_ns(head.ev)
                if first is None or due < first:
                    first = due
        return first

    def rtt_ns(self) -> int:
        """A round trip on the slowest plane, smoothed; the configured first guess before any sample."""
        return max(plane.rtt_ns for plane in self._planes) or self._initial_rtt_ns

    def rto_ns(self) -> int:
        """The retransmission timeout before any back-off."""
        slowest = max(plane.rtt_ns + _VAR_FACTOR * plane.var_ns for plane in self._planes)
        return max(self._rto_min_ns, slowest or 3 * self._initial_rtt_ns)

    def _advance(self, plane: _Plane, sent_ns: int, sample: int) -> None:
        """Move the fronts to when that packet has arrived: on its plane, when it usually does; for the others, which a
        late agent does not delay alike, when it can have at the soonest.

        Not to when its report came: this agent may have been late to read it, and that is no path's fault.
        """
        low = plane.low_ns or sample
        plane.front_ns = max(plane.front_ns, sent_ns + (min(sample, plane.rtt_ns) if sample else low))
        self._front_ns = max(self._front_ns, sent_ns + low)

    def _sample(self, ev: Ev, sample: int) -> None:
        if not self._min_rtt_ns or sample < self._min_rtt_ns:
            self._min_rtt_ns = sample
            # A path stores and forwards four times: if a packet seems to take longer, the rate is another one.
            self._board.packet_ns = min(self._packet_ns, sample >> 2)
        plane = self._planes[ev.plane]
        if not plane.samples:
            plane.next_low_ns = sample
        plane.samples += 1
        if sample < plane.next_low_ns:
            plane.next_low_ns = sample
        if plane.samples == _LOW_SAMPLES:
            plane.low_ns = plane.next_low_ns
            plane.samples = 0
        elif sample < plane.low_ns or not plane.low_ns:
            plane.low_ns = sample
        if plane.rtt_ns:
            difference = sample - plane.rtt_ns
            plane.rtt_ns += difference >> 3
            plane.var_ns += (abs(difference) - plane.var_ns) >> 2
        else:
            plane.rtt_ns = sample
            plane.var_ns = sample >> 1
        if ev.srtt_ns:
            ev.srtt_ns += sample - ev.srtt_ns >> 2
        else:
            ev.srtt_ns = sample
            plane.paths.add(ev.path)
        ev.rtt_ns = sample
        if self._stretch > 1.0:
            self._stretch -= (self._stretch - 1.0) * _STRETCH_DECAY


def _covers(cack: int, base: int, psn: int) -> bool:
    return base <= psn < base + BLOCK or psn == cack + 1
