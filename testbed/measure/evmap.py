"""The EV map: for each path through the fabric (plane, T1), when senders had it out of use, and what they lost on it.

Replayed from the senders' events of state changes; an EV is in use until an event says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.wire import ev as entropy
from testbed.measure.record import GOOD_STATES, Run

Path = tuple[int, int]  # (plane, T1)


@dataclass(frozen=True, slots=True)
class PathRow:
    """One path: packets lost on it, and for each bin the share of all flows' time that it was out of use (0..1)."""

    plane: int
    t1: int
    packets_lost: int
    out_of_use: list[float]
    out_of_use_share: float  # of the whole time of the bins


def rows(run: Run, edges: Sequence[int]) -> list[PathRow]:
    """The map over the bins between `edges`, by plane and T1. `edges` has at least two times."""
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
        share = [time / full / (edges[i + 1] - edges[i]) for i, time in enumerate(times)]
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
    since: dict[tuple[str, int], int] = {}
    for change in sorted(run.ev_changes(), key=lambda change: change.t_ns):
        key = (change.flow, change.ev)
        if change.new not in GOOD_STATES:
            since.setdefault(key, change.t_ns)
        elif key in since:
            yield _path(change.ev), since.pop(key), change.t_ns
    for (_, ev), since_ns in since.items():
        yield _path(ev), since_ns, run.stop_ns
