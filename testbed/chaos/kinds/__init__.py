"""The kinds of faults, by name; one file each. Pure data: the lab and the simulator read the same."""

from __future__ import annotations

from testbed.chaos.kinds import (
    agent,
    black_hole,
    corrupt,
    delay,
    denylist,
    ecn_mark_all,
    ecn_off,
    ev_loss,
    link_down,
    link_flap,
    loss,
    loss_of_light,
    not_forwarding,
    plane_down,
    plane_loss,
    power_loss,
    rate_drop,
    t1_reboot,
    transceiver,
    trimming_off,
)
from testbed.chaos.kinds.kind import Kind
from testbed.topology.errors import InputError, nearest

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        link_down.KIND,
        link_flap.KIND,
        loss_of_light.KIND,
        black_hole.KIND,
        not_forwarding.KIND,
        loss.KIND,
        ev_loss.KIND,
        plane_loss.KIND,
        corrupt.SEEN,
        corrupt.UNSEEN,
        rate_drop.KIND,
        delay.KIND,
        ecn_off.KIND,
        ecn_mark_all.KIND,
        trimming_off.KIND,
        power_loss.T0,
        power_loss.T1,
        t1_reboot.KIND,
        transceiver.T0,
        transceiver.NIC,
        plane_down.KIND,
        agent.PAUSE,
        agent.RESTART,
        denylist.KIND,
    )
}


def find_kind(name: str) -> Kind:
    """The kind of that name. Raises InputError with the nearest one."""
    if name not in KINDS:
        raise InputError(f"no fault kind {name!r}", nearest(name, KINDS) or f"known: {', '.join(KINDS)}")
    return KINDS[name]
