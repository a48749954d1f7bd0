"""ev-loss: one EV of a host loses packets, all others do not: what a bad lane behind one hash bucket looks like."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def _acts(case: Case) -> tuple[Act, ...]:
    match = ("ev", case.target.ev) if case.target.usid is None else ("usid", case.target.usid)
    assert match[1] is not None
    names = {node.name for node in case.target.nodes}
    own = [port for link in case.target.links for port in link.ends() if port.node in names]
    # in this order, and undone in reverse: at no time is a loss drawn for the packets of another EV
    return change_each(own, ("match_kind", match[0]), ("match_value", match[1]), ("match_loss", case.options["loss"]))


KIND = Kind(
    name="ev-loss",
    doc="a host's NIC loses a share of what it sends on one EV; a port has room for one such EV, the latest",
    takes="ev",
    acts=_acts,
    defaults={"loss": 0.2},
    only_mrc="queue pairs of RoCE have one path and no EVs",
)
