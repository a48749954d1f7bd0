"""Faults by hand, whatever else runs: through the same journal and injector as a run's, which sees and records them."""

from __future__ import annotations

from contextlib import suppress

from testbed.chaos.hands import LabHands
from testbed.chaos.injector import Injector
from testbed.chaos.interrupt import Interruptible
from testbed.chaos.journal import Journal
from testbed.chaos.kinds.kind import End
from testbed.chaos.kinds.options import Values
from testbed.lab.running import RunningLab
from testbed.measure.record import Fault
from testbed.topology.errors import InputError


def put(
    lab: RunningLab, kind: str, target: str, end: End | None = None, options: Values | None = None, *, seed: int = 0
) -> Fault:
    """Put a fault in; it stays until it is cleared. Raises InputError for an unknown kind, target or option.

    `seed` is for targets that pick. MissingError: this machine cannot do it.
    """
    injector = _injector(lab)
    return injector.put(kind, target, end, options, by="hand", seed=seed)


def put_for(
    lab: RunningLab,
    kind: str,
    target: str,
    end: End | None = None,
    options: Values | None = None,
    *,
    lasts_ns: int,
    seed: int = 0,
) -> Fault:
    """Put a fault in, and undo it when it has lasted so long, or a signal wishes the end; errors as for `put`."""
    injector = _injector(lab)
    with Interruptible() as interrupt:  # from before it is in until it is out: no signal leaves it behind
        fault = injector.put(kind, target, end, options, by="hand", seed=seed)
        due_ns = fault.down_ns + lasts_ns
        interrupt.wait_until(due_ns)
        with suppress(InputError):  # somebody else has undone it
            return injector.undo(fault.number, due_ns=due_ns)
    return next(one for one in Journal(lab.dir).faults() if one.number == fault.number)


def active(lab: RunningLab) -> list[Fault]:
    """The faults that are in now, those of a run too, oldest first."""
    return _injector(lab).active()


def clear(lab: RunningLab, number: int | None = None) -> list[Fault]:
    """Undo one fault by its number (InputError if it is not in), or all, latest first. Returns what was undone."""
    injector = _injector(lab)
    return injector.undo_all() if number is None else [injector.undo(number)]


def _injector(lab: RunningLab) -> Injector:
    return Injector(lab.clos, Journal(lab.dir), LabHands(lab))
