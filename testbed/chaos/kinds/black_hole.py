"""black-hole: a link is up and loses everything, or all data while control packets and probes still pass."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def _acts(case: Case) -> tuple[Act, ...]:
    return change_each(case.ports, ("black_hole", case.options["what"]))


KIND = Kind(
    name="black-hole",
    doc="swallows silently what the ends send into a link (both ends when nothing else is said); no carrier is lost",
    takes="links",
    acts=_acts,
    end="both",
    defaults={"what": "all"},
)
