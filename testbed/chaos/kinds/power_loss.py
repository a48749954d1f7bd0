"""t0-power-loss, t1-power-loss: a switch is off; all neighbours lose carrier, and it comes back as it was."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act, Down
from testbed.chaos.kinds.kind import Case, Kind


def acts(case: Case) -> tuple[Act, ...]:
    """All ports of the named switches down, switched off by the switches themselves."""
    names = {node.name for node in case.target.nodes}
    return tuple(Down(port) for link in case.target.links for port in link.ends() if port.node in names)


T0 = Kind(
    name="t0-power-loss",
    doc="a T0 switch is off: its hosts lose that plane, with carrier",
    takes="t0",
    acts=acts,
)
T1 = Kind(
    name="t1-power-loss",
    doc="a T1 switch is off: every T0 of the plane loses one uplink",
    takes="t1",
    acts=acts,
)
