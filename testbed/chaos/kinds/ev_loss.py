"""ev-loss: one EV of a host loses packets, all others do not: what a bad lane behind one hash bucket looks like."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def _acts(case: Case) -> tuple[Act, ...]:
    assert case.target.ev is not None
    names = {node.name for node in case.target.nodes}
    own = [port for link in case.target.links for port in link.ends() if port.node in names]
    # in this order, and undone in reverse: at no time is a loss drawn for the packets of another EV
    return change_each(own, ("match_kind", "ev"), ("match_value", case.target.ev), ("match_loss", case.options["loss"]))


KIND = Kind(
    name="ev-loss",
    doc="a host's NIC loses a share of what it sends on one EV; a port has room for one such EV, the latest",
    takes="ev",
    acts=_acts,
    defaults={"loss": 0.2},
)
