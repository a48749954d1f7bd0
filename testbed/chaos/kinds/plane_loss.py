"""plane-loss: every link of a plane loses packets at random."""

from __future__ import annotations

from testbed.chaos.kinds import loss
from testbed.chaos.kinds.kind import Kind

KIND = Kind(
    name="plane-loss",
    doc="loses a share of the packets on each link of a plane",
    takes="plane",
    acts=loss.acts,
    defaults={"loss": 0.01},
)
