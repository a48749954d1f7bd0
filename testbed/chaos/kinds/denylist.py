"""denylist-set: the controller takes links out of use before they fail, as for maintenance; no packet is lost."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act, Deny
from testbed.chaos.kinds.kind import Case, Kind


def _acts(case: Case) -> tuple[Act, ...]:
    return tuple(Deny(link.name) for link in case.target.links)


KIND = Kind(
    name="denylist-set",
    doc="all hosts are told to use no EV that crosses these links (queue pairs of that moment)",
    takes="links",
    acts=_acts,
    by_evs=True,
    only_mrc="queue pairs of RoCE have one path and no EVs",
)
