"""Sees in the journal which faults came and went while a run goes on, its own and those by hand, and records them."""

from __future__ import annotations

from testbed.chaos.journal import Journal
from testbed.measure.record import Fault, FaultActed, Run, RunEvent
from testbed.measure.recorder import Sink


class Witness:
    """Of one run. Faults that ended before it was made are none of its business."""

    def __init__(self, journal: Journal, recorder: Sink) -> None:
        self._journal = journal
        self._recorder = recorder
        self._over = {fault.number for fault in journal.faults() if fault.until_ns is not None}
        self._told: set[tuple[int, bool]] = set()

    def look(self) -> list[RunEvent]:
        """Record what has happened since the last look; returns the new events."""
        events: list[RunEvent] = []
        for fault in self._journal.faults():
            if fault.number in self._over:
                continue
            for active, t_ns, done_ns, due_ns in (
                (True, fault.since_ns, fault.down_ns, fault.due_ns),
                (False, fault.up_ns, fault.until_ns, fault.undo_due_ns),
            ):
                if t_ns is None or done_ns is None or (fault.number, active) in self._told:
                    continue
                self._told.add((fault.number, active))
                what = (fault.number, fault.kind, fault.target, fault.end)
                events.append(FaultActed(t_ns, *what, active, done_ns, due_ns))
        for event in events:
            self._recorder.event(event)
        return events

    def faults_during(self, run: Run) -> list[Fault]:
        """The faults that were active at some time of the run's traffic."""
        return [
            fault
            for fault in self._journal.faults()
            if fault.since_ns < run.stop_ns and (fault.until_ns is None or fault.until_ns > run.start_ns)
        ]
