"""What one look at the machine found: a row of the doctor's table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["OK", "missing", "degraded", "unknown"]


@dataclass(frozen=True, slots=True)
class Row:
    """One need: `state`, what was `found`, what it is for, what mends it (a command or words), and whose it is."""

    name: str
    state: State
    found: str
    purpose: str
    fix: str
    verbs: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


Look = Callable[[], Iterator[Row]]


def judged(name: str, ok: bool, found: str, purpose: str, fix: str, otherwise: State = "missing") -> Row:
    """A row that is OK, or in the state `otherwise`."""
    return Row(name, "OK" if ok else otherwise, found, purpose, fix)
