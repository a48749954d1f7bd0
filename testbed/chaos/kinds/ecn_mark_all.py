"""ecn-mark-all: a port marks every data packet, also with an empty queue, as with thresholds in the wrong unit."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def _acts(case: Case) -> tuple[Act, ...]:
    # kmin first, and undone last: it is never above kmax
    return change_each(case.ports, ("ecn", True), ("kmin_bytes", 0), ("kmax_bytes", 0), ("pmax", 1.0))


KIND = Kind(
    name="ecn-mark-all",
    doc="the queues at the ends of a link mark all data, however short they are",
    takes="links",
    acts=_acts,
    end="both",
)
