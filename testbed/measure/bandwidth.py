"""How fast a job's operations were, and how evenly: algbw and busbw of nccl-tests, percentiles, Jain's index."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.workloads.programs import KINDS

_NS_BITS = 8 * 10**9


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """In bits per second: `algorithm` is size / time; `bus` is what the wires had to carry for it."""

    algorithm_bps: float
    bus_bps: float


def bandwidth(kind: str, ranks: int, message_bytes: int, took_ns: float) -> Bandwidth:
    """Of one operation that took so long. Raises KeyError for an unknown kind, ZeroDivisionError for no time."""
    algorithm_bps = message_bytes * _NS_BITS / took_ns
    return Bandwidth(algorithm_bps, algorithm_bps * KINDS[kind].bus_factor(ranks))


def percentile(values: Sequence[float], percent: int) -> float:
    """Of at least one value, 1..99; between two values it is interpolated, beyond the outermost it is that one."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def weighted_percentiles(counts: Mapping[int, int]) -> dict[str, float] | None:
    """Of durations counted by their length in ns: seconds, each one that was seen; None when there are none."""
    count = sum(counts.values())
    if not count:
        return None
    found: dict[str, float] = {}
    below = 0
    wanted = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    for value, times in sorted(counts.items()):
        below += times
        found |= {name: value / 1e9 for name, share in wanted.items() if name not in found and below >= share * count}
    return found


def jain_index(shares: Sequence[float]) -> float:
    """1: all have the same; 1/n: one has everything (Jain, Chiu and Hawe, 1984). Nothing at all counts as even."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
