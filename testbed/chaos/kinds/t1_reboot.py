"""t1-reboot: a T1 goes down, its ports come up again, and only then are its tables programmed (paper, section 6)."""

from __future__ import annotations

from testbed.chaos.kinds import power_loss
from testbed.chaos.kinds.acts import Act, Blank
from testbed.chaos.kinds.kind import Case, Kind


def _acts(case: Case) -> tuple[Act, ...]:
    # undone in reverse: the ports are up before the tables are there
    return (*(Blank(node.name) for node in case.target.nodes), *power_loss.acts(case))


KIND = Kind(
    name="t1-reboot",
    doc="a T1 switch is down (2 s when nothing else is said); then its ports come up, and after them its tables",
    takes="t1",
    acts=_acts,
    lasts_ns=2_000_000_000,
)
