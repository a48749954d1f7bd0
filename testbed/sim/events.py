"""Virtual time: a list of things to do, done in order of their time (as htsim's `do_next_event`).

Time jumps from one event to the next; between events nothing happens, so nothing ever waits. Events of the same time
are done in the order in which they were entered, which makes a run a function of its seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[..., None]


class EventList:
    """The clock and what is still to come."""

    def __init__(self) -> None:
        self.now = 0  # ns
        self.done = 0  # events done so far
        self._order = itertools.count()
        self._heap: list[tuple[int, int, Action, tuple[Any, ...]]] = []

    def at(self, time_ns: int, action: Action, *arguments: Any) -> None:
        """Do `action(*arguments)` at `time_ns`. Raises ValueError for a time that has passed."""
        if time_ns < self.now:
            raise ValueError(f"{time_ns} ns has passed; it is {self.now} ns")
        heappush(self._heap, (time_ns, next(self._order), action, arguments))

    def after(self, delay_ns: int, action: Action, *arguments: Any) -> None:
        """Do `action(*arguments)` in `delay_ns`."""
        self.at(self.now + delay_ns, action, *arguments)

    def do_next_event(self) -> bool:
        """Jump to the next event and do it; False when there is none."""
        if not self._heap:
            return False
        self.now, _, action, arguments = heappop(self._heap)
        self.done += 1
        action(*arguments)
        return True

    def run(self, until: Callable[[], bool], deadline_ns: int) -> bool:
        """Do events until `until()` holds: True. When that does not happen up to `deadline_ns`: False, at that time."""
        while not until():
            if not self._heap or self._heap[0][0] > deadline_ns:
                self.now = max(self.now, deadline_ns)
                return False
            self.do_next_event()
        return True

    def run_to(self, time_ns: int) -> None:
        """Do all events up to that time, and be there."""
        heap = self._heap
        while heap and heap[0][0] <= time_ns:
            self.now, _, action, arguments = heappop(heap)
            self.done += 1
            action(*arguments)
        self.now = max(self.now, time_ns)
