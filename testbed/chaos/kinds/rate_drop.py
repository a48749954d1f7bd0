"""rate-drop: a link runs slower, as one that has trained to fewer lanes."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act, Change
from testbed.chaos.kinds.kind import Case, Kind, ports_of


def _acts(case: Case) -> tuple[Act, ...]:
    return tuple(
        Change(port, "rate_bps", round(link.rate_bps * case.options["rate"]))
        for link in case.target.links
        for port in ports_of(link, case.end or "both")
    )


KIND = Kind(
    name="rate-drop",
    doc="leaves a share of a link's rate",
    takes="links",
    acts=_acts,
    end="both",
    defaults={"rate": 0.25},
)
