"""ecn-off: a port marks nothing however long its queue, as a switch whose ECN was forgotten."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def _acts(case: Case) -> tuple[Act, ...]:
    return change_each(case.ports, ("ecn", False))


KIND = Kind(
    name="ecn-off",
    doc="the queues at the ends of a link no longer mark packets",
    takes="links",
    acts=_acts,
    end="both",
)
