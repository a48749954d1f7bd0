"""Cumulative counters of receivers -> goodput in bins of any width, per plane and per flow.

Goodput is payload that arrived for the first time, counted at the receiver. Agents sample on multiples of their
interval; between two samples the counter is taken to grow evenly, so a bin narrower than the samples says nothing new.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from testbed.measure.record import Received, Run

BIN_NS = 200_000_000  # the width in which expectations and dips are judged (issue: "every 200 ms bin")


def received_at(samples: Sequence[Received], t_ns: int, planes: int) -> list[float]:
    """Bytes per plane at `t_ns`, interpolated; 0 before anything was sampled, the last value after the end."""
    after = bisect_right(samples, t_ns, key=lambda sample: sample.t_ns)
    if after == 0:
        return [0.0] * planes
    before = samples[after - 1]
    if after == len(samples):
        return [float(value) for value in before.bytes_by_plane]
    later = samples[after]
    share = (t_ns - before.t_ns) / (later.t_ns - before.t_ns)
    pairs = zip(before.bytes_by_plane, later.bytes_by_plane, strict=True)
    return [low + (high - low) * share for low, high in pairs]


def bin_edges(start_ns: int, stop_ns: int, width_ns: int = BIN_NS) -> list[int]:
    """The edges of the whole bins that fit between two times (one more than there are bins)."""
    return list(range(start_ns, stop_ns + 1, width_ns))


def run_edges(run: Run, start_ns: int, stop_ns: int, width_ns: int = BIN_NS) -> list[int]:
    """The same with bins of a width of the lab's time."""
    return bin_edges(start_ns, stop_ns, run.of_lab(width_ns))


def plane_bins(run: Run, flows: Iterable[str], edges: Sequence[int]) -> list[list[float]]:
    """Goodput in bits per second of some flows together: [bin][plane]."""
    totals = [[0.0] * run.planes for _ in edges]
    for flow in flows:
        samples = run.received.get(flow, [])
        for row, t_ns in zip(totals, edges, strict=True):
            for plane, value in enumerate(received_at(samples, t_ns, run.planes)):
                row[plane] += value
    return [
        [(high - low) * 8e9 / (edges[i + 1] - edges[i]) for low, high in zip(totals[i], totals[i + 1], strict=True)]
        for i in range(len(edges) - 1)
    ]


def goodput_bins(run: Run, flows: Iterable[str], edges: Sequence[int]) -> list[float]:
    """Goodput in bits per second of some flows together, all planes: [bin]."""
    return [sum(planes) for planes in plane_bins(run, flows, edges)]


def mean_goodput(run: Run, flows: Iterable[str], start_ns: int, stop_ns: int) -> float:
    """Goodput in bits per second of some flows together between two times; 0 when there is no time between."""
    if stop_ns <= start_ns:
        return 0.0
    return goodput_bins(run, flows, [start_ns, stop_ns])[0]
