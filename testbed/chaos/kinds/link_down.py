"""link-down: a link fails as when its optic or its port dies. With `every` and `count` in a scenario it is a flap."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act, Down
from testbed.chaos.kinds.kind import Case, Kind


def acts(case: Case) -> tuple[Act, ...]:
    """Switch the ports off; shared by the kinds that are this one in larger numbers."""
    return tuple(Down(port) for port in case.ports)


KIND = Kind(
    name="link-down",
    doc="switches the port at the near, the far or both ends off; the other end loses carrier and nothing crosses",
    takes="links",
    acts=acts,
    end="near",
)
