"""Puts faults into a fabric and takes them out again, through the journal, so that they overlap as they should.

The order is always: lock, journal, act, journal. What several faults hold at once is `kinds.standing`'s to say; what a
fault found is in the journal before the first act, and is restored when the last fault that holds it ends. The work
itself is done by `Hands`: the kernel's are `testbed.chaos.hands`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Protocol, cast

from testbed.chaos.journal import Journal
from testbed.chaos.kinds import KINDS, find_kind
from testbed.chaos.kinds.acts import Act, Kill, Pause
from testbed.chaos.kinds.kind import End, Kind, damage
from testbed.chaos.kinds.options import Values
from testbed.chaos.kinds.standing import to_do, to_undo
from testbed.chaos.kinds.watched import watched
from testbed.measure.record import Fault, Seen
from testbed.topology.clos import Clos, Port
from testbed.topology.errors import InputError
from testbed.topology.port_stamps import PortStamps
from testbed.topology.targets import resolve


class Hands(Protocol):
    """What does acts on a fabric."""

    def refuse_unable(self, kind: Kind) -> None:
        """Raises MissingError or InputError when this fabric cannot have faults of a kind."""

    def found(self, act: Act) -> Any:
        """What `do` will change, as a plain value for `restore`; None when restoring needs none."""

    def watch(self, port: Port) -> None:
        """A fault begins that this port will see: what it notes from now on is of it."""

    def stamps(self, port: Port) -> PortStamps:
        """What the port noted since `watch`."""

    def do(self, act: Act) -> None:
        """Do it; no error when it is done already."""

    def restore(self, act: Act, found: Any) -> None:
        """Put back what was found; no error when it is there already."""


def _at_once(t_ns: int) -> None:
    """Nobody waits."""


class Injector:
    """The faults of one lab. `clock` gives CLOCK_MONOTONIC in ns; `wait` lets it reach a time, with all prepared."""

    def __init__(
        self,
        clos: Clos,
        journal: Journal,
        hands: Hands,
        clock: Callable[[], int] = time.monotonic_ns,
        wait: Callable[[int], None] = _at_once,
    ) -> None:
        self._wait = wait
        self._clos = clos
        self._journal = journal
        self._hands = hands
        self._clock = clock

    def put(
        self,
        kind: str,
        target: str,
        end: End | None = None,
        options: Values | None = None,
        *,
        by: str,
        due_ns: int | None = None,
        entry: int | None = None,
        seed: int = 0,
    ) -> Fault:
        """Put a fault in; returns it with the times at which it really acted. Raises InputError for what is no fault.

        When `due_ns` is still to come, all but the acts is done at once, and these then. `seed` is for targets that
        pick. When the kernel refuses, what was done so far is taken back and the error goes on.
        """
        found_kind = self.require(kind)
        resolved = resolve(self._clos, target, Random(seed))
        found_kind.refuse_hashed(resolved, self._clos)
        case = found_kind.case(resolved, end, options or {})
        acts = found_kind.acts(case)
        fault = Fault(
            number=0,
            kind=kind,
            target=case.target.text,
            end=case.end,
            since_ns=self._clock(),
            down_ns=0,
            by=by,
            links=tuple(link.name for link in case.target.links),
            damage=tuple(damage(self._clos, acts).items()),
            options=tuple(case.options.items()),
            due_ns=due_ns,
            entry=entry,
        )
        with self._journal.locked():
            active = self._journal.active()
            others = [self._acts_of(one) for one in active]
            fault = replace(fault, number=self._journal.put(fault, self._found(acts, active)))
            held = {one.port for acts_of_other in others for one in watched(self._clos, acts_of_other)}
            for one in watched(self._clos, acts):
                if one.port not in held:
                    self._hands.watch(one.port)
            todo = to_do(acts, others)
            if due_ns is not None:
                self._wait(due_ns)
            since_ns = self._clock()
            try:
                for act in todo:
                    self._hands.do(act)
            except BaseException:
                self._undo(fault, active)
                raise
            down_ns = self._clock()
            self._journal.acted(fault.number, since_ns, down_ns)
            return replace(fault, since_ns=since_ns, down_ns=down_ns)

    def require(self, kind: str) -> Kind:
        """The kind of that name. Raises InputError for an unknown one, MissingError for what the machine cannot do."""
        found = find_kind(kind)
        self._hands.refuse_unable(found)
        return found

    def silent_hosts(self) -> set[str]:
        """The hosts whose agents do not answer now, because of a fault."""
        acts = [act for fault in self.active() for act in self._acts_of(fault)]
        return {act.host for act in acts if isinstance(act, Pause | Kill)}

    def dead_hosts(self) -> set[str]:
        """The hosts whose agents are killed now."""
        return {act.host for fault in self.active() for act in self._acts_of(fault) if isinstance(act, Kill)}

    def killed_hosts(self, faults: Iterable[Fault]) -> dict[str, Fault]:
        """The hosts whose agents some of these faults have killed, each with the first that did."""
        killed: dict[str, Fault] = {}
        for fault in faults:
            for act in self._acts_of(fault):
                if isinstance(act, Kill):
                    killed.setdefault(act.host, fault)
        return killed

    def undo(self, number: int, *, due_ns: int | None = None) -> Fault:
        """Undo one fault; returns it with the times. Raises InputError when no such fault is active."""
        with self._journal.locked():
            active = self._journal.active()
            fault = next((fault for fault in active if fault.number == number), None)
            if fault is None:
                numbers = ", ".join(str(fault.number) for fault in active)
                raise InputError(f"no fault {number} is active", f"active: {numbers}" if active else "none is")
            return self._undo(fault, [other for other in active if other is not fault], due_ns)

    def undo_all(self, *, by: str | None = None) -> list[Fault]:
        """Undo every active fault, or those of one origin, latest first. Returns them."""
        done = []
        with self._journal.locked():
            active = self._journal.active()
            for fault in reversed([fault for fault in active if by in (None, fault.by)]):
                active.remove(fault)
                done.append(self._undo(fault, active))
        return done

    def active(self) -> list[Fault]:
        """The faults that are in now, oldest first."""
        return self._journal.active()

    def _undo(self, fault: Fault, others: Sequence[Fault], due_ns: int | None = None) -> Fault:
        acts = self._acts_of(fault)
        steps = to_undo(acts, [self._acts_of(other) for other in others])
        seen = tuple(Seen(one.name, one.dead, self._hands.stamps(one.port)) for one in watched(self._clos, acts))
        self._journal.undo(fault.number, self._clock(), due_ns, seen)
        found = self._journal.before(fault.number)
        if due_ns is not None:
            self._wait(due_ns)
        up_ns = self._clock()
        for position, act, instead in steps:
            if instead is None:
                self._hands.restore(act, found[position])
            else:
                self._hands.do(instead)
        until_ns = self._clock()
        self._journal.undone(fault.number, up_ns, until_ns)
        return replace(fault, up_ns=up_ns, until_ns=until_ns, undo_due_ns=due_ns, seen=seen)

    def _found(self, acts: Sequence[Act], active: Iterable[Fault]) -> list[Any]:
        """What acts find: where a fault holds the thing already, what that one found before."""
        known = {
            act.key: value
            for fault in reversed(list(active))
            for act, value in zip(self._acts_of(fault), self._journal.before(fault.number), strict=True)
        }
        return [known[act.key] if act.key in known else self._hands.found(act) for act in acts]

    def _acts_of(self, fault: Fault) -> tuple[Act, ...]:
        """From the journal's words; they name the same in the same lab (`Target.text`)."""
        kind = KINDS[fault.kind]
        target = resolve(self._clos, fault.target, Random(0))
        return kind.acts(kind.case(target, cast(End, fault.end) if fault.end else None, dict(fault.options)))
