"""link-flap: a link goes and comes back a moment later; `every` and `count` make a series of it (paper, Fig. 5)."""

from __future__ import annotations

from testbed.chaos.kinds import link_down
from testbed.chaos.kinds.kind import Kind

KIND = Kind(
    name="link-flap",
    doc="link-down for a moment: 100 ms when nothing else is said",
    takes="links",
    acts=link_down.acts,
    end="near",
    lasts_ns=100_000_000,
)
