"""The way back of reports: a small set of reverse EVs, one for each plane, kept alive by use or by probes (paper, 3.3).

An EV that a SACK has come back for, or a probe, works in both directions and is adopted by its plane. A queue pair that
sends data learns that from the SACKs it gets; one that only receives sends an EV probe on a random EV once in a base
round trip, for as long as data comes in.

A report goes [ours] over the reverse of the path that its packet has just come by, since a link that carried it a
moment ago is the best one known; when that path is known not to work backwards (its probe was not answered, its EV is
out of use, its plane is down), over the plane's reverse EV, another plane's, or whatever is left.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from agents.mrc.config import MrcConfig
from agents.mrc.ev_set import Ev, EvSet, path_of
from agents.transport import Datagram


class ReverseSet:
    """The reverse EVs of one queue pair."""

    def __init__(
        self, config: MrcConfig, evs: EvSet, planes: int, rng: Random, send: Callable[[Ev, int], Datagram]
    ) -> None:
        """`send` makes the probe of an EV; its answer is to come to `answered`."""
        self.ways: list[Ev | None] = [None] * planes
        self.probe_wanted = False
        self._evs = evs
        self._rng = rng
        self._send = send
        self._interval_ns = config.initial_rtt_ns
        self._timeout_ns = config.probe_timeout_ns
        self._heard_ns = 0  # data came in
        self._proved_ns = -self._interval_ns - 1  # our own data was reported
        self._due_ns: int | None = None
        self._asked: dict[int, int] = {}  # EV -> when its probe went, the oldest first
        self._one_way: set[int] = set()  # paths that do not answer

    def heard(self, now: int) -> None:
        """Data came in: reports go back."""
        self._heard_ns = now
        if self._due_ns is None:
            self._due_ns = now + self._interval_ns

    def proved(self, value: int, now: int) -> None:
        """A SACK came back for data that we sent over this EV."""
        self._proved_ns = now
        self._adopt(value)

    def answered(self, value: int, rtt_ns: int, marked: bool, now: int) -> None:
        """A probe came back."""
        self._asked.pop(value, None)
        self._adopt(value)

    def way_back(self, came_by: int) -> Ev | None:
        """The EV for a report on what came by the EV `came_by`; None when no plane is up."""
        mirrored = self._evs.on_path(path_of(came_by))
        if mirrored is not None:
            if self._works(mirrored):
                return mirrored
            way = self.ways[mirrored.plane]
            if way is not None and self._works(way):
                return way
        for way in self.ways:
            if way is not None and self._works(way):
                return way
        return self._evs.any_usable()

    def next_timer(self) -> int | None:
        """When `handle_timer` wants to be called next."""
        return self._due_ns

    def handle_timer(self, now: int) -> None:
        """Ask for a probe when one is due, and see which have not been answered."""
        if self._due_ns is None or now < self._due_ns:
            return
        while self._asked:
            value, sent_ns = next(iter(self._asked.items()))
            if now - sent_ns < self._timeout_ns:
                break
            del self._asked[value]
            self._give_up(value)
        receiving = now - self._heard_ns <= self._interval_ns
        self.probe_wanted = receiving and now - self._proved_ns > self._interval_ns
        self._due_ns = now + self._interval_ns if receiving or self._asked else None

    def poll(self, now: int, ready: int) -> Datagram | None:
        """The probe that is due, when a port of the bit mask `ready` takes it."""
        ev = self._evs.any_usable(ready)
        if ev is None:
            return None
        self.probe_wanted = False
        self._asked.setdefault(ev.value, now)
        return self._send(ev, now)

    def _works(self, ev: Ev) -> bool:
        return ev.usable and bool(self._evs.up_mask >> ev.plane & 1) and ev.path not in self._one_way

    def _adopt(self, value: int) -> None:
        ev = self._evs.get(value)
        if ev is not None:
            self.ways[ev.plane] = ev
            self._one_way.discard(ev.path)

    def _give_up(self, value: int) -> None:
        ev = self._evs.get(value)
        assert ev is not None, "only EVs of the set are asked"
        if self._evs.up_mask >> ev.plane & 1:
            self._one_way.add(ev.path)
            if self.ways[ev.plane] is ev:
                self.ways[ev.plane] = None
