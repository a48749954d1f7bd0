"""t0-transceiver, nic-transceiver: an optic fails, and all links that it carries flap together (paper, section 6)."""

from __future__ import annotations

from testbed.chaos.kinds import link_down
from testbed.chaos.kinds.kind import Kind

T0 = Kind(
    name="t0-transceiver",
    doc="the four NIC links of one optic of a T0 go down together, at the T0's end when nothing else is said",
    takes="t0-transceiver",
    acts=link_down.acts,
    end="far",
)
NIC = Kind(
    name="nic-transceiver",
    doc="all ports of a host go down together",
    takes="nic-transceiver",
    acts=link_down.acts,
    end="near",
)
