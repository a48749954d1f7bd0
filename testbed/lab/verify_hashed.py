"""Proof that a fabric that hashes uses every path: probes as many different flows, and the ports' own word on each.

The port programs note which EV of which hosts they have sent (`watch_evs`, `portmap.ev_uses`). So for each probe it is
known over which T1 it went, and over which its answer came back, whatever else is on its way (a routing daemon's
packets are). Probes are drawn until for every ordered pair of T0 groups, in every plane, each T1 has been crossed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from agents.wire import ev
from testbed.fabric.portmap import EvUse, PortMap
from testbed.lab.agents import AgentClient, AgentGroup
from testbed.lab.verify import PROBE_TIMEOUT_NS, SHOWN, TRIES, PathError
from testbed.topology import clos
from testbed.topology.clos import Clos, Port
from testbed.topology.errors import InputError

_PROBES_PER_T1 = 2  # in a round, per pair of groups and plane
_CARRIERS_WITHIN_S = 3.0  # a port that has just come up is hashed over when the kernel has noticed its carrier
_ROUNDS = 30  # that one of 64 T1s gets none of so many probes has a probability of 1e-26

Uses = Callable[[], Iterable[EvUse]]  # reads what the watching ports have noted
Flow = tuple[int, int, int]  # EV, source host, destination host
Missing = dict[tuple[int, int, int], set[int]]  # source group, destination group, plane -> T1s not crossed yet


class Watched:
    """The fabric ports of a lab while they watch EVs."""

    def __init__(self, fabric: Clos, uses: Uses) -> None:
        self._uses = uses
        self._far = {port.ifindex: far for port, far in _fabric_ports(fabric)}
        self._near = {port.ifindex: port.node for port, _ in _fabric_ports(fabric)}
        self._before = {_flow_at(use): use.packets for use in uses()}

    def ways(self, flows: Iterable[Flow]) -> dict[Flow, list[tuple[str, str]]]:
        """For each flow the links that its packets took since the beginning, as (from, to), T0 before T1."""
        found: dict[Flow, list[tuple[str, str]]] = {flow: [] for flow in flows}
        for use in self._uses():
            flow, ifindex = _flow_at(use)
            if flow in found and ifindex in self._far and use.packets > self._before.get((flow, ifindex), 0):
                found[flow].append((self._near[ifindex], self._far[ifindex].node))
        return {flow: sorted(links) for flow, links in found.items()}


def _flow_at(use: EvUse) -> tuple[Flow, int]:
    return (use.ev, use.src, use.dst), use.ifindex


def _fabric_ports(fabric: Clos) -> Iterator[tuple[Port, Port]]:
    for link in fabric.links.values():
        if link.tier == "t0-t1":
            yield link.a, link.b
            yield link.b, link.a


@contextmanager
def watching(fabric: Clos, ports: PortMap, uses: Uses) -> Iterator[Watched]:
    """Let the fabric's ports note EVs for the time of the block."""
    before = {port.ifindex: ports.change(port.ifindex, watch_evs=True) for port, _ in _fabric_ports(fabric)}
    try:
        yield Watched(fabric, uses)
    finally:
        for ifindex, settings in before.items():
            ports.set(ifindex, settings)


def verify_hashed(
    fabric: Clos, ports: PortMap, uses: Uses, agents: AgentGroup, progress: Callable[[int, int], None]
) -> int:
    """Probe until every path between T0 groups was taken; how many there are. Raises PathError."""
    spec = fabric.spec
    distances = range(1, spec.t0_groups)
    with watching(fabric, ports, uses) as watched:
        for distance in distances:
            missing: Missing = {
                (group, (group + distance) % spec.t0_groups, plane): set(range(spec.t1s_per_plane))
                for group in range(spec.t0_groups)
                for plane in range(spec.planes)
            }
            _cover(fabric, watched, agents, missing, Random(f"{spec.name} {distance}"))
            progress(distance, len(distances))
    return spec.t0_groups * (spec.t0_groups - 1) * spec.planes * spec.t1s_per_plane


def _cover(fabric: Clos, watched: Watched, agents: AgentGroup, missing: Missing, rng: Random) -> None:
    """Probe, round by round, until nothing is missing."""
    failed = round_number = 0
    deadline = time.monotonic() + _CARRIERS_WITHIN_S
    while round_number < _ROUNDS or time.monotonic() < deadline:
        wrong = _round(fabric, watched, agents, missing, rng, round_number)
        failed += bool(wrong)
        if failed == TRIES:
            more = f" (and {len(wrong) - SHOWN} more)" if len(wrong) > SHOWN else ""
            raise PathError("paths do not work: " + "; ".join(wrong[:SHOWN]) + more)
        if not any(missing.values()):
            return
        round_number += 1
    (src, dst, plane), t1s = next((key, t1s) for key, t1s in missing.items() if t1s)
    name, near = clos.t1_name(plane, min(t1s)), clos.t0_name(plane, src)
    raise PathError(f"no flow from {near} to {clos.t0_name(plane, dst)} was hashed onto {name}")


def _round(
    fabric: Clos, watched: Watched, agents: AgentGroup, missing: Missing, rng: Random, round_number: int
) -> list[str]:
    """Some probes for each pair and plane that misses a T1; strikes off what was crossed, returns what was wrong."""
    spec = fabric.spec
    slot = round_number % spec.hosts_per_t0  # a host of each group stands for it, another one in each round
    asked: dict[int, tuple[int, list[int]]] = {}  # source host -> destination host, EVs
    for (src, dst, plane), t1s in missing.items():
        if t1s:
            peer = dst * spec.hosts_per_t0 + slot
            _, evs = asked.setdefault(src * spec.hosts_per_t0 + slot, (peer, []))
            evs += [_drawn(plane, rng) for _ in range(_PROBES_PER_T1 * spec.t1s_per_plane)]
    answers = agents.call_each(
        "probe",
        {
            clos.host_name(host): {"peer": peer, "evs": evs, "timeout_ns": PROBE_TIMEOUT_NS}
            for host, (peer, evs) in asked.items()
        },
    )
    sent = {(value, host, peer) for host, (peer, evs) in asked.items() for value in evs}
    ways = watched.ways(sent | {(value, peer, host) for value, host, peer in sent})
    wrong = []
    for host, (peer, _) in asked.items():
        for result in answers[clos.host_name(host)]["results"]:
            there, back = (result["ev"], host, peer), (result["ev"], peer, host)
            for flow in (there, back):
                if result["answered"] or flow == there:
                    wrong += _judge(fabric, flow, ways[flow], missing if flow == there else None)
            if not result["answered"]:
                name = f"{clos.host_name(host)} to {clos.host_name(peer)}"
                wrong.append(f"no answer to a probe from {name} in plane {ev.plane_of(result['ev'])}")
    return wrong


def _judge(fabric: Clos, flow: Flow, way: list[tuple[str, str]], missing: Missing | None) -> list[str]:
    """Is the way one T1 in the flow's plane, from the one T0 to the other? Then that T1 is no longer missing."""
    value, src, dst = flow
    plane, src_group, dst_group = ev.plane_of(value), fabric.group_of(src), fabric.group_of(dst)
    near, far = clos.t0_name(plane, src_group), clos.t0_name(plane, dst_group)
    for t1 in range(fabric.spec.t1s_per_plane):
        middle = clos.t1_name(plane, t1)
        if way == [(near, middle), (middle, far)]:
            if missing is not None:
                missing[src_group, dst_group, plane].discard(t1)
            return []
    links = ", ".join(f"{a} to {b}" for a, b in way) or "no link"
    return [f"a packet from {clos.host_name(src)} to {clos.host_name(dst)} in plane {plane} took {links}"]


def _drawn(plane: int, rng: Random) -> int:
    return ev.make(plane, 0, rng.randrange(1, ev.MAX_SPARE + 1))


@dataclass(frozen=True, slots=True)
class HashedProof:
    """A probe with one EV: was it answered, and the nodes that it and its answer crossed, by the ports' word."""

    ev: int
    answered: bool
    rtt_ns: int | None
    nodes: list[str]
    nodes_back: list[str]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {**asdict(self), "ev": f"{self.ev:#010x}"}


def prove_hashed(
    fabric: Clos, ports: PortMap, uses: Uses, agent: AgentClient, ends: tuple[str, str], evs: Sequence[int]
) -> list[HashedProof]:
    """Send a probe with each of these EVs from the agent's host to another, and see where they went.

    Raises InputError for an EV of a plane that there is not. Only T0-T1 links are seen; inside a rack there are none.
    """
    for value in evs:
        plane = ev.plane_of(value)
        if plane >= fabric.spec.planes:
            raise InputError(f"EV {value:#010x} is of plane {plane}", f"planes are 0 to {fabric.spec.planes - 1}")
    near, far = (fabric.nodes[name].index for name in ends)
    with watching(fabric, ports, uses) as watched:
        results = agent.call("probe", peer=far, evs=list(evs), timeout_ns=PROBE_TIMEOUT_NS)["results"]
        ways = watched.ways((value, *pair) for value in evs for pair in ((near, far), (far, near)))
    return [
        HashedProof(
            one["ev"],
            one["answered"],
            one.get("rtt_ns"),
            _nodes(ways[one["ev"], near, far]),
            _nodes(ways[one["ev"], far, near]),
        )
        for one in results
    ]


def _nodes(way: list[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for link in way for name in link))
