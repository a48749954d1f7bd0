"""The kinds of faults, by name; one file each."""

from __future__ import annotations

from testbed.chaos.kinds import link_down
from testbed.chaos.kinds.kind import Kind
from testbed.topology.errors import InputError, nearest

KINDS: dict[str, Kind] = {kind.name: kind for kind in (link_down.KIND,)}


def find_kind(name: str) -> Kind:
    """The kind of that name. Raises InputError with the nearest one."""
    if name not in KINDS:
        raise InputError(f"no fault kind {name!r}", nearest(name, KINDS) or f"known: {', '.join(KINDS)}")
    return KINDS[name]
