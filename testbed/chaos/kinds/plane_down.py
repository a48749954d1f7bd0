"""plane-down: a whole plane is off, every port of it at every switch and NIC."""

from __future__ import annotations

from testbed.chaos.kinds import link_down
from testbed.chaos.kinds.kind import Kind

KIND = Kind(
    name="plane-down",
    doc="every link of a plane is down, switched off at both ends",
    takes="plane",
    acts=link_down.acts,
)
