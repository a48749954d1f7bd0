"""Where a packet with a given EV goes: its uSIDs, outer address, nodes and links, all computed (paper, section 3)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from ipaddress import IPv6Address
from typing import Any

from agents.wire import address
from agents.wire import ev as entropy
from testbed.topology.clos import Clos
from testbed.topology.errors import InputError
from testbed.topology.select import find_ev_path, find_host


@dataclass(frozen=True, slots=True)
class Trace:
    """The way of one EV from host to host. `usids` as four hexadecimal digits each, `nodes` with both hosts."""

    src: str
    dst: str
    ev: int
    plane: int
    t1: int | None  # None inside one rack, where the EV's uplink means nothing
    usids: list[str]
    outer_address: str
    inner_address: str
    nodes: list[str]
    links: list[str]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def trace(clos: Clos, src: str, dst: str, ev: int) -> Trace:
    """The way of an EV between two hosts. Raises InputError for a host that is none, or an EV that leads nowhere."""
    source, target = find_host(clos, src), find_host(clos, dst)
    if source == target:
        raise InputError(f"{src} to itself crosses no fabric", "name two hosts")
    path = find_ev_path(clos, ev)
    ends = source.index, target.index, path.plane, path.t1
    usids = clos.path_usids(*ends)
    return Trace(
        src=source.name,
        dst=target.name,
        ev=ev,
        plane=path.plane,
        t1=None if clos.group_of(source.index) == clos.group_of(target.index) else path.t1,
        usids=[f"{usid:04x}" for usid in usids],
        outer_address=str(IPv6Address(address.sid_address(address.DEFAULT_BLOCK, *usids))),
        inner_address=str(IPv6Address(address.host_address(target.index))),
        nodes=clos.path_nodes(*ends),
        links=clos.path_links(*ends),
    )


def traces(clos: Clos, src: str, dst: str) -> list[Trace]:
    """All paths between two hosts, by plane and T1; inside one rack, one for each plane. Raises as `trace`."""
    same_rack = clos.group_of(find_host(clos, src).index) == clos.group_of(find_host(clos, dst).index)
    t1s = 1 if same_rack else clos.spec.t1s_per_plane
    return [trace(clos, src, dst, entropy.make(plane, t1)) for plane in range(clos.spec.planes) for t1 in range(t1s)]
