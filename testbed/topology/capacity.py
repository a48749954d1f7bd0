"""The oracle: what a healthy or damaged fabric can carry of a traffic matrix, computed from the model alone.

Two rules, both MRC's (paper, section 3). Planes are kept equal: a flow puts the same rate on each plane that can carry
it, so its slowest plane sets its rate. Inside a plane it is balanced perfectly over the T1s whose two links both live
(`balance`). Flows share max-min fairly: all grow together, and one that is held by a full link, or has what it
offers, stays there while the others go on.

A plane can carry a flow when both NIC links live in the data's direction and, between racks, some T1 has life at both
T0s. Control packets (about 1 % of the opposite direction) are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from testbed.topology.balance import Pair, PlaneCapacity, grow
from testbed.topology.clos import Clos, t0_name, t1_name
from testbed.topology.select import find_host, find_link, find_node
from testbed.topology.sizes import payload_share

FlowKey = tuple[str, str]  # (source host, destination host), by name
Direction = tuple[str, str]  # (from node, to node) of a link
Damage = Mapping[str, float]

_TINY = 1e-9


@dataclass(frozen=True)
class Carried:
    """What each flow gets, in bits per second on the wire (Ethernet frames without FCS, as shapers count them)."""

    flows: dict[FlowKey, float]
    planes: dict[FlowKey, tuple[int, ...]]  # that carry the flow

    @property
    def total_bps(self) -> float:
        """All flows together, on the wire."""
        return sum(self.flows.values())

    @property
    def payload_bps(self) -> dict[FlowKey, float]:
        """Payload of each flow."""
        return {flow: rate * payload_share() for flow, rate in self.flows.items()}

    @property
    def total_payload_bps(self) -> float:
        """Payload of all flows together."""
        return self.total_bps * payload_share()


def carried(clos: Clos, offered_bps: Mapping[FlowKey, float], damage: Damage | None = None) -> Carried:
    """What the fabric carries of `offered_bps` (wire rate per flow; `float('inf')` = as much as it can).

    `damage`: what remains, 0..1, of a link `p0t0-1:p0t1-3` (both directions), of one direction of it
    `p0t0-1>p0t1-3`, or of a node (all its links). Raises InputError for a name that the lab does not have, ValueError
    for a flow from a host to itself, a rate that is none, or a fraction outside 0..1.
    """
    rates = _direction_rates(clos, damage or {})
    planes = [_plane_capacity(clos, plane, rates) for plane in range(clos.spec.planes)]
    flows = {key: _flow(clos, key, bps, rates, planes) for key, bps in offered_bps.items()}
    got = _fill(flows, rates, planes)
    return Carried(got, {key: flow.planes for key, flow in flows.items()})


@dataclass(frozen=True, slots=True)
class _Flow:
    offered_bps: float
    planes: tuple[int, ...]
    t0s: Pair
    nic_links: tuple[Direction, ...]  # of all its planes

    @property
    def share(self) -> float:
        """Of the flow's rate, what each plane carries."""
        return 1 / len(self.planes)

    @property
    def crosses_t1(self) -> bool:
        return self.t0s[0] != self.t0s[1]


def _direction_rates(clos: Clos, damage: Damage) -> dict[Direction, float]:
    rates: dict[Direction, float] = {}
    for link in clos.links.values():
        near, far = link.a.node, link.b.node
        rates[near, far] = rates[far, near] = float(link.rate_bps)
    remaining: dict[Direction, float] = {}
    for name, fraction in damage.items():
        if not 0 <= fraction <= 1:
            raise ValueError(f"{name}: the remaining fraction {fraction} is not in 0..1")
        for direction in _directions(clos, name):
            remaining[direction] = min(fraction, remaining.get(direction, 1.0))
    return {direction: rate * remaining.get(direction, 1.0) for direction, rate in rates.items()}


def _directions(clos: Clos, name: str) -> Iterable[Direction]:
    if ">" in name:
        source, _, target = name.partition(">")
        find_link(clos, f"{source}:{target}")
        return [(source, target)]
    links = [find_link(clos, name)] if ":" in name else [link for _, link in clos.ports(find_node(clos, name).name)]
    return [way for link in links for way in ((link.a.node, link.b.node), (link.b.node, link.a.node))]


def _plane_capacity(clos: Clos, plane: int, rates: Mapping[Direction, float]) -> PlaneCapacity:
    t0s = [t0_name(plane, index) for index in range(clos.spec.t0_groups)]
    t1s = [t1_name(plane, index) for index in range(clos.spec.t1s_per_plane)]
    return PlaneCapacity(
        up=[[rates[t0, t1] for t1 in t1s] for t0 in t0s], down=[[rates[t1, t0] for t1 in t1s] for t0 in t0s]
    )


def _flow(clos: Clos, key: FlowKey, bps: float, rates: Mapping[Direction, float], planes: list[PlaneCapacity]) -> _Flow:
    src, dst = (find_host(clos, name) for name in key)
    if src == dst:
        raise ValueError(f"a flow from {src.name} to itself crosses no fabric")
    if not bps >= 0:
        raise ValueError(f"{src.name} to {dst.name}: {bps} is no rate")
    t0s = clos.group_of(src.index), clos.group_of(dst.index)
    usable = []
    links: list[Direction] = []
    for plane, capacity in enumerate(planes):
        up = src.name, t0_name(plane, t0s[0])
        down = t0_name(plane, t0s[1]), dst.name
        if rates[up] and rates[down] and (t0s[0] == t0s[1] or capacity.connected(t0s)):
            usable.append(plane)
            links += [up, down]
    return _Flow(bps, tuple(usable), t0s, tuple(links))


def _fill(
    flows: Mapping[FlowKey, _Flow], rates: Mapping[Direction, float], planes: list[PlaneCapacity]
) -> dict[FlowKey, float]:
    """Progressive filling: each round raises all growing flows to one level, and stops those that are held there."""
    got = {key: 0.0 for key, flow in flows.items() if not flow.planes or not flow.offered_bps}
    growing = {key: flow for key, flow in flows.items() if key not in got}
    reach = [0.0] * len(planes)  # a level that the plane can carry; when flows stop below it, it can only carry more
    while growing:
        stopped = {key: flows[key] for key in got if flows[key].planes}
        most_offered = min(flow.offered_bps for flow in growing.values())
        nic_levels = _nic_levels(growing, stopped, got, rates)
        level = min(most_offered, min(nic_levels.values()))
        held: set[tuple[int, Pair]] = set()  # (plane, T0s) where the fabric is full at this level
        for plane, capacity in enumerate(planes):
            demands = _demands(growing, plane)
            if not demands or reach[plane] >= level:
                continue
            growth = grow(capacity, _demands(stopped, plane, got), demands)
            reach[plane] = growth.level
            if growth.level < level:
                level = growth.level
                held = {(plane, pair) for pair in growth.held}
        reached = level * (1 + _TINY)
        for key, flow in list(growing.items()):
            if (
                flow.offered_bps <= reached
                or any(nic_levels[link] <= reached for link in flow.nic_links)
                or (flow.crosses_t1 and any((plane, flow.t0s) in held for plane in flow.planes))
            ):
                got[key] = min(level, flow.offered_bps)
                del growing[key]
    return {key: got[key] for key in flows}


def _nic_levels(
    growing: Mapping[FlowKey, _Flow],
    stopped: Mapping[FlowKey, _Flow],
    got: Mapping[FlowKey, float],
    rates: Mapping[Direction, float],
) -> dict[Direction, float]:
    """For each NIC link of a growing flow: the level at which it is full."""
    taken: defaultdict[Direction, float] = defaultdict(float)
    weight: defaultdict[Direction, float] = defaultdict(float)
    for key, flow in stopped.items():
        for link in flow.nic_links:
            taken[link] += got[key] * flow.share
    for flow in growing.values():
        for link in flow.nic_links:
            weight[link] += flow.share
    return {link: max(0.0, rates[link] - taken[link]) / share for link, share in weight.items()}


def _demands(
    flows: Mapping[FlowKey, _Flow], plane: int, got: Mapping[FlowKey, float] | None = None
) -> dict[Pair, float]:
    """Between the T0s of a plane: the rate that stopped flows (`got`) put there, or the weight of growing ones."""
    demands: defaultdict[Pair, float] = defaultdict(float)
    for key, flow in flows.items():
        if flow.crosses_t1 and plane in flow.planes:
            demands[flow.t0s] += flow.share * (1.0 if got is None else got[key])
    return demands
