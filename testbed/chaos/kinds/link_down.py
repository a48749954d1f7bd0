"""link-down: a link fails as when its optic or its port dies. With `every` and `count` in a scenario it is a flap."""

from __future__ import annotations

from testbed.chaos.kinds.kind import Act, End, Kind, ports_of
from testbed.topology.clos import Link


def _acts(link: Link, end: End) -> tuple[Act, ...]:
    return tuple(Act(port, "down") for port in ports_of(link, end))


KIND = Kind(
    name="link-down",
    doc="switches the port at the near, the far or both ends off; the other end loses carrier and nothing crosses",
    acts=_acts,
)
