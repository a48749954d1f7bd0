"""not-forwarding: a switch is up and forwards nothing, the failure that no carrier tells of (paper, section 4)."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each
from testbed.topology.clos import Port


def _acts(case: Case) -> tuple[Act, ...]:
    names = {node.name for node in case.target.nodes}
    own: list[Port] = [port for link in case.target.links for port in link.ends() if port.node in names]
    return change_each(own, ("black_hole", "all"))


KIND = Kind(
    name="not-forwarding",
    doc="a switch stays up with all its links, and nothing leaves it on any port",
    takes="switch",
    acts=_acts,
)
