"""loss-of-light: one fibre of a link is dead, so one direction carries nothing, and no carrier is lost."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def _acts(case: Case) -> tuple[Act, ...]:
    return change_each(case.ports, ("black_hole", "all"))


KIND = Kind(
    name="loss-of-light",
    doc="what the near (or far) end sends vanishes, the other direction works; both ends see the link up",
    takes="links",
    acts=_acts,
    end="near",
)
