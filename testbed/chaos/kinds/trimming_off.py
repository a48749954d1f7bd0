"""trimming-off: a port drops what it would have trimmed, so that the receiver does not learn of it."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def _acts(case: Case) -> tuple[Act, ...]:
    return change_each(case.ports, ("trimming", False))


KIND = Kind(
    name="trimming-off",
    doc="the queues at the ends of a link drop what they would have trimmed",
    takes="links",
    acts=_acts,
    end="both",
    only_mrc="packets of RoCE are never trimmed",
)
