"""Puts faults into the kernel and takes them out again, through the journal, counted per port.

The order is always: lock, journal, act, journal. A port that two faults hold down is switched off by the first and
comes back with the last. The kernel work (and restoring the routes and neighbours that a downed port lost) is
`testbed.fabric.ports`'.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, cast

from testbed.chaos.journal import Journal
from testbed.chaos.kinds import KINDS, find_kind
from testbed.chaos.kinds.kind import End
from testbed.measure.record import Fault
from testbed.topology.clos import Clos, Port
from testbed.topology.errors import InputError


class PortSwitch(Protocol):
    """What switches one end of a link off and restores it."""

    def take_down(self, port: Port) -> None:
        """Switch the port off."""

    def bring_up(self, port: Port) -> None:
        """Switch it on with all that it had; no error when it is on already."""


class Injector:
    """The faults of one lab. `clock` gives CLOCK_MONOTONIC in ns."""

    def __init__(
        self, clos: Clos, journal: Journal, ports: PortSwitch, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._clos = clos
        self._journal = journal
        self._ports = ports
        self._clock = clock

    def put(self, kind: str, target: str, end: End, *, by: str) -> Fault:
        """Put a fault in; returns it with the times at which it really acted. Raises InputError for unknown names.

        When the kernel refuses, what was done so far is taken back and the error goes on.
        """
        find_kind(kind)
        with self._journal.locked():
            held = self._held(self._journal.active())
            number = self._journal.put(kind, target, end, by, self._clock())
            fault = Fault(number, kind, target, end, since_ns=0, down_ns=0, by=by)
            since_ns = self._clock()
            try:
                for port in self._ports_of(fault):
                    if port not in held:
                        self._ports.take_down(port)
            except BaseException:
                self._undo(fault, held)
                raise
            down_ns = self._clock()
            self._journal.acted(number, since_ns, down_ns)
            return replace(fault, since_ns=since_ns, down_ns=down_ns)

    def undo(self, number: int) -> Fault:
        """Undo one fault; returns it with the times. Raises InputError when no such fault is active."""
        with self._journal.locked():
            active = self._journal.active()
            fault = next((fault for fault in active if fault.number == number), None)
            if fault is None:
                numbers = ", ".join(str(fault.number) for fault in active)
                raise InputError(f"no fault {number} is active", f"active: {numbers}" if active else "none is")
            return self._undo(fault, self._held(other for other in active if other != fault))

    def undo_all(self, *, by: str | None = None) -> list[Fault]:
        """Undo every active fault, or those of one origin, latest first. Returns them."""
        done = []
        with self._journal.locked():
            active = self._journal.active()
            for fault in reversed([fault for fault in active if by in (None, fault.by)]):
                active.remove(fault)
                done.append(self._undo(fault, self._held(active)))
        return done

    def active(self) -> list[Fault]:
        """The faults that are in now, oldest first."""
        return self._journal.active()

    def _undo(self, fault: Fault, still_held: set[Port]) -> Fault:
        self._journal.undo(fault.number, self._clock())
        up_ns = self._clock()
        for port in reversed(self._ports_of(fault)):
            if port not in still_held:
                self._ports.bring_up(port)
        until_ns = self._clock()
        self._journal.undone(fault.number, up_ns, until_ns)
        return replace(fault, up_ns=up_ns, until_ns=until_ns)

    def _ports_of(self, fault: Fault) -> list[Port]:
        acts = KINDS[fault.kind].acts(self._clos.links[fault.target], cast(End, fault.end))
        return [act.port for act in acts]

    def _held(self, faults: Iterable[Fault]) -> set[Port]:
        return {port for fault in faults for port in self._ports_of(fault)}
