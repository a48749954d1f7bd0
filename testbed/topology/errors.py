"""Errors for the person who reads them: what is wrong, where, and what would be right; each with its exit code.

The exit codes are the command line's contract: 2 wrong input, 3 the machine lacks something, 4 the run is not valid.
The command line prints `str(error)` and exits with `exit_code`; a traceback is never part of the answer.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar


class MrclabError(Exception):
    """What went wrong in words for a person. `hint` says what would be right, or is empty.

    By itself: the lab or the machine is not as it has to be. Never 1, which only a verdict says.
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}" if self.hint else self.what


class InputError(MrclabError):
    """Wrong input or usage. `file` and `line` (from 1) say where, when it came from a file.

    `also` holds the further errors of the same input: the text has a line for each, in the order of their lines.
    """

    exit_code = 2

    def __init__(
        self,
        what: str,
        hint: str = "",
        *,
        file: str | Path | None = None,
        line: int | None = None,
        also: Iterable[InputError] = (),
    ) -> None:
        super().__init__(what, hint)
        self.file = None if file is None else str(file)
        self.line = line
        self.also = tuple(also)

    @classmethod
    def several(cls, errors: Sequence[InputError]) -> InputError:
        """All errors of one input as one, in the order of their lines. `errors` is not empty."""
        first, *rest = sorted(errors, key=lambda error: error.line or 0)
        return cls(first.what, first.hint, file=first.file, line=first.line, also=rest)

    def __str__(self) -> str:
        where = "".join(f"{part}:" for part in (self.file, self.line) if part is not None)
        own = f"{where} {super().__str__()}" if where else super().__str__()
        return "\n".join([own, *map(str, self.also)])


class MissingError(MrclabError):
    """The machine lacks something: what, what it is for, and the command that mends it."""

    exit_code = 3

    def __init__(self, what: str, purpose: str, fix: str) -> None:
        super().__init__(f"{what} ({purpose})", fix)
        self.purpose = purpose
        self.fix = fix


class InvalidRunError(MrclabError):
    """The run says nothing about the network: the machine was overloaded, or the lab was damaged."""

    exit_code = 4


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like `name`, or None when none is."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)), None)


def nearest(name: str, names: Iterable[str]) -> str:
    """`did you mean 'x'?` for the name that is most like `name`; empty when none is."""
    match = closest(name, names)
    return f"did you mean {match!r}?" if match else ""
