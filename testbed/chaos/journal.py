"""The journal of faults: what is put in is written here first, so that it can be undone exactly, also after a crash.

One file in the lab's state directory, a JSON line per step, appended in one write and synced: `put` before the first
act, with what was there before (to restore it), `acted` after it, `undo` before the undoing, `undone` after it. What
was put and not undone is active, whatever became of the process that put it. The file goes with the lab, so it is the
lab's whole history of faults as well.

A lock on the file keeps two processes (a run, and `mrclab fault` by hand) from acting on one port at once. In virtual
time nothing outlives its process: there `MemoryJournal` serves.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from testbed.measure.record import Fault, Seen
from testbed.topology.port_stamps import PortStamps

FILE_NAME = "faults.jsonl"
_DESCRIPTION = ("kind", "target", "end", "by", "links", "damage", "options", "due_ns", "entry")  # fields of Fault


class Journal:
    """The faults of one lab. Reading needs no lock; `put` and the other steps are to be called inside `locked`."""

    def __init__(self, lab_dir: Path) -> None:
        self.path = lab_dir / FILE_NAME
        self._faults: dict[int, Fault] = {}
        self._before: dict[int, list[Any]] = {}
        self._read_bytes = 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time; waits for the other one, which holds it for a few ms."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def put(self, fault: Fault, before: Sequence[Any]) -> int:
        """A fault is about to be put in at its `since_ns`. Returns its number, from 1; the one it has is not looked at.

        `before` is what its acts will change, each as it is now: plain values.
        """
        number = len(self.faults()) + 1
        what = {name: getattr(fault, name) for name in _DESCRIPTION}
        self._append({"step": "put", "fault": number, **what, "t_ns": fault.since_ns, "before": list(before)})
        return number

    def acted(self, number: int, since_ns: int, down_ns: int) -> None:
        """It was put in between these two times."""
        self._append({"step": "acted", "fault": number, "since_ns": since_ns, "down_ns": down_ns})

    def undo(self, number: int, now_ns: int, due_ns: int | None = None, seen: Sequence[Seen] = ()) -> None:
        """It is about to be undone, which was due at `due_ns`; this is what ports noted of it."""
        noted = [(one.port, one.dead, *astuple(one.stamps)) for one in seen]
        self._append({"step": "undo", "fault": number, "t_ns": now_ns, "due_ns": due_ns, "seen": noted})

    def undone(self, number: int, up_ns: int, until_ns: int) -> None:
        """It was undone between these two times."""
        self._append({"step": "undone", "fault": number, "up_ns": up_ns, "until_ns": until_ns})

    def faults(self) -> list[Fault]:
        """Every fault of the lab so far, in the order in which they were put in."""
        for step in self._new_steps():
            number = step["fault"]
            match step["step"]:
                case "put":
                    what = {name: _as_tuples(step[name]) for name in _DESCRIPTION}
                    self._faults[number] = Fault(number=number, since_ns=step["t_ns"], down_ns=step["t_ns"], **what)
                    self._before[number] = step["before"]
                case "acted":
                    self._change(number, since_ns=step["since_ns"], down_ns=step["down_ns"])
                case "undo":
                    seen = tuple(
                        Seen(port, dead, PortStamps(*map(_as_tuples, stamps)))
                        for port, dead, *stamps in step.get("seen", ())
                    )
                    self._change(number, undo_due_ns=step["due_ns"], seen=seen)
                case "undone":
                    self._change(number, up_ns=step["up_ns"], until_ns=step["until_ns"])
        return list(self._faults.values())

    def before(self, number: int) -> list[Any]:
        """What a fault's acts found, one value for each."""
        self.faults()  # it may have been put since the last look
        return self._before[number]

    def active(self) -> list[Fault]:
        """The faults that were put in and not undone, oldest first."""
        return [fault for fault in self.faults() if fault.until_ns is None]

    def _append(self, step: dict[str, Any]) -> None:
        line = json.dumps(step, separators=(",", ":")).encode() + b"\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # the line before was torn by a crash
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _change(self, number: int, **times: Any) -> None:
        self._faults[number] = replace(self._faults[number], **times)

    def _new_steps(self) -> list[dict[str, Any]]:
        """The steps that were appended, by whomever, since the last look: a long history is read once."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        steps = []
        for line in lines:
            if not line.endswith(b"\n"):
                break  # not whole yet, or torn by a crash: then the next append ends it
            self._read_bytes += len(line)
            with suppress(json.JSONDecodeError):  # torn by a crash: nothing had been done yet when it was written
                steps.append(json.loads(line))
        return steps


class MemoryJournal(Journal):
    """A journal that is nowhere but here, for a fabric that ends with its process."""

    def __init__(self) -> None:
        super().__init__(Path())
        self._fresh: list[dict[str, Any]] = []

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else can have it."""
        yield

    def _append(self, step: dict[str, Any]) -> None:
        self._fresh.append(step)

    def _new_steps(self) -> list[dict[str, Any]]:
        steps, self._fresh = self._fresh, []
        return steps


def _as_tuples(value: Any) -> Any:
    """JSON has only lists; a fault has tuples."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
