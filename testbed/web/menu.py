"""What can be done to a lab by hand, for the page: kinds of faults with their options, and what was chosen of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from testbed.chaos.kinds import KINDS, find_kind
from testbed.chaos.kinds.kind import End
from testbed.chaos.kinds.options import OPTIONS

_ENDS = ("near", "far", "both")


class BadRequestError(Exception):
    """A request of the wrong shape; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Of a kind of fault: the end, the options' values, and how long it lasts when it ends by itself."""

    end: End | None
    options: dict[str, Any]
    lasts_ns: int | None


def kinds() -> list[dict[str, Any]]:
    """Each kind: `name`, `doc`, what it `takes`, the default `end` (null: it has none), and `options` as texts."""
    return [
        {
            "name": kind.name,
            "doc": kind.doc,
            "takes": kind.takes,
            "end": kind.end,
            "options": [
                {"name": name, "doc": OPTIONS[name].doc, "default": OPTIONS[name].show(default)}
                for name, default in kind.defaults.items()
            ],
        }
        for kind in KINDS.values()
    ]


def choice(kind_name: str, end: str | None, options: dict[str, Any]) -> Choice:
    """What was chosen, options as people write them. Raises InputError for an unknown kind, else BadRequestError."""
    kind = find_kind(kind_name)
    if end is not None and end not in _ENDS:
        raise BadRequestError(f"end is one of {', '.join(_ENDS)}")
    values = {}
    for name, text in options.items():
        if name not in kind.defaults:
            raise BadRequestError(f"{kind.name} takes no {name}")
        try:
            values[name] = OPTIONS[name].parse(text)
        except (ValueError, TypeError) as error:
            raise BadRequestError(f"{name}: {error}") from None
    return Choice(cast("End | None", end), values, kind.lasts_ns)
