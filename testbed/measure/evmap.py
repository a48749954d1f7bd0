"""The EV map: for each path through the fabric (plane, T1), when senders had it out of use, and what they lost on it.

Replayed from the senders' events: an EV is in use until it is retired, or its plane is given up with a NIC port.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agents.wire import ev as entropy
from testbed.measure.record import GOOD_STATES, Run

Path = tuple[int, int]  # (plane, T1)
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PathRow:
    """One path: packets lost on it, and for each bin the share of all flows' time that it was out of use (0..1)."""

    plane: int
    t1: int
    packets_lost: int
    out_of_use: list[float]
    out_of_use_share: float  # of the whole time of the bins


def rows(run: Run, edges: Sequence[int]) -> list[PathRow]:
    """The map over the bins between `edges`, by plane and T1; empty where EVs name no paths. `edges`: two at least."""
    if not run.clos.spec.source_routed:
        return []
    bins = {path: [0.0] * (len(edges) - 1) for path in _paths(run)}
    for path, since_ns, until_ns in _out_of_use(run):
        for i in range(len(edges) - 1):
            overlap_ns = min(until_ns, edges[i + 1]) - max(since_ns, edges[i])
            if overlap_ns > 0:
                bins[path][i] += overlap_ns
    losses = dict.fromkeys(bins, 0)
    for loss in run.losses():
        losses[_path(loss.ev)] += 1
    evs = _evs_per_path(run)
    found = []
    for (plane, t1), times in bins.items():
        full = evs[plane, t1]
        share = [min(1.0, time / full / (edges[i + 1] - edges[i])) for i, time in enumerate(times)]
        whole = sum(times) / full / (edges[-1] - edges[0])
        found.append(PathRow(plane, t1, losses[plane, t1], share, whole))
    return found


def _path(ev: int) -> Path:
    return entropy.plane_of(ev), entropy.uplink_of(ev)


def _paths(run: Run) -> list[Path]:
    return [(plane, t1) for plane in range(run.planes) for t1 in range(run.clos.spec.t1s_per_plane)]


def _evs_per_path(run: Run) -> dict[Path, int]:
    """How many EVs of all flows name a path: one a flow, or as many as were seen to change."""
    seen: dict[Path, set[tuple[str, int]]] = {path: set() for path in _paths(run)}
    for change in run.ev_changes():
        seen[_path(change.ev)].add((change.flow, change.ev))
    return {path: max(len(changed), len(run.flows), 1) for path, changed in seen.items()}


def _out_of_use(run: Run) -> Iterator[tuple[Path, int, int]]:
    """(path, since, until) of each stretch in which some flow had an EV of the path out of use."""
    senders = {flow.name: flow.src for flow in run.flows}
    evs = [((change.flow, change.ev), change.new in GOOD_STATES, change.t_ns) for change in run.ev_changes()]
    planes = [
        ((change.flow, change.plane), change.up, change.t_ns)
        for change in run.port_changes()
        if change.host == senders[change.flow]
    ]
    for (_, ev), since_ns, until_ns in _stretches(evs, run.stop_ns):
        yield _path(ev), since_ns, until_ns
    for (_, plane), since_ns, until_ns in _stretches(planes, run.stop_ns):
        for t1 in range(run.clos.spec.t1s_per_plane):
            yield (plane, t1), since_ns, until_ns


def _stretches(changes: Iterable[tuple[Key, bool, int]], stop_ns: int) -> Iterator[tuple[Key, int, int]]:
    """(key, since, until) of each stretch between a change to False and the next one to True, or the stop."""
    since: dict[Key, int] = {}
    for key, in_use, t_ns in sorted(changes, key=lambda change: change[2]):
        if not in_use:
            since.setdefault(key, t_ns)
        elif key in since:
            yield key, since.pop(key), t_ns
    for key, since_ns in since.items():
        yield key, since_ns, stop_ns
