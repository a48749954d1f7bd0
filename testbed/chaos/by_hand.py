"""Faults by hand, whatever else runs: through the same journal and injector as a run's, which sees and records them."""

from __future__ import annotations

from testbed.chaos.injector import Injector
from testbed.chaos.journal import Journal
from testbed.chaos.kinds.kind import End
from testbed.lab.running import RunningLab
from testbed.measure.record import Fault
from testbed.topology.select import find_link


def put(lab: RunningLab, kind: str, target: str, end: End = "near") -> Fault:
    """Put a fault in; it stays until it is cleared. Raises InputError for an unknown kind or link."""
    return _injector(lab).put(kind, find_link(lab.clos, target).name, end, by="hand")


def active(lab: RunningLab) -> list[Fault]:
    """The faults that are in now, those of a run too, oldest first."""
    return _injector(lab).active()


def clear(lab: RunningLab, number: int | None = None) -> list[Fault]:
    """Undo one fault by its number (InputError if it is not in), or all, latest first. Returns what was undone."""
    injector = _injector(lab)
    return injector.undo_all() if number is None else [injector.undo(number)]


def _injector(lab: RunningLab) -> Injector:
    return Injector(lab.clos, Journal(lab.dir), lab.ports)
