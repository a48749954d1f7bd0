"""The attributes of an object by name, to compare two of a class that has no equality; also where it is compiled."""

from __future__ import annotations

from typing import Any


def told(thing: Any) -> dict[str, Any]:
    """What it holds, and of which class it is."""
    names = [name for name in dir(thing) if not name.startswith("_")]
    return {
        "class": type(thing),
        **{name: getattr(thing, name) for name in names if not callable(getattr(thing, name))},
    }
