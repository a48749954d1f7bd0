"""What a comparison reads off a run: named figures, and the curve of its goodput.

Figures of streams and jobs are by workload (and size), so that an incast and its victim, or small and large messages,
stand apart. A time that never came is infinite, what there was nothing to measure of is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from testbed.measure import faults, figure, series
from testbed.measure.distribution import Distribution
from testbed.measure.figure import Figure
from testbed.measure.record import QpFailed, Run
from testbed.topology.units import format_size

CURVE_BIN_NS = 100_000_000  # of the lab's time

_OF_RUN = (
    Figure("goodput_bps", "goodput of all streams", "rate"),
    Figure("dip", "goodput missing in the worst 200 ms of any fault", "fraction"),
    Figure("recovered_s", "time until goodput was back, slowest fault", "s"),
    Figure("rerouted_s", "time from the first packet lost to the last, slowest fault", "s"),
    Figure("packets_lost", "packets lost, all flows and faults", "count"),
    Figure("qp_errors", "queue pairs that died", "count"),
    Figure("interruptions", "interruptions of jobs", "count"),
    Figure("bytes_wrong", "bytes wrong", "count"),
)
_OF_STREAMS: tuple[tuple[str, str, str], ...] = (
    ("goodput_bps", "goodput", "rate"),
    ("min_flow_share", "least flow, of what a host can send", "fraction"),
    ("jain_index", "Jain's index", "index"),
    ("p50", "message completion, median", "s"),
    ("p99", "message completion, p99", "s"),
    ("p99.9", "message completion, p99.9", "s"),
)
_OF_JOBS: tuple[tuple[str, str, str], ...] = (
    ("busbw_bps", "bus bandwidth", "rate"),
    ("operations_per_s", "operations a second, restarts included", "count"),
    ("p50", "operation, median", "s"),
    ("p99", "operation, p99", "s"),
)


@dataclass(frozen=True)
class Observed:
    """One run: its figures by key, its curve in bits per second, its verdict with reasons."""

    seed: int
    verdict: str
    reasons: list[str]
    warnings: list[str]
    interrupted: str
    figures: dict[str, float]
    curve: list[float]
    bin_s: float = CURVE_BIN_NS / 1e9


def observe(run: Run, summary: Mapping[str, Any]) -> Observed:
    """Read a run. `summary` is its own."""
    costs = faults.costs(run)
    figures: dict[str, float | None] = {
        "bytes_wrong": figure.bytes_wrong(summary),
        "qp_errors": sum(isinstance(event, QpFailed) for event in run.events),
    }
    if summary["workloads"]:
        figures["goodput_bps"] = sum(one["goodput_bps"] for one in summary["workloads"])
    if costs:
        figures |= {
            "dip": _most(cost.dip_fraction for cost in costs),
            "recovered_s": _most(cost.recovered_s for cost in costs),
            "rerouted_s": _most(cost.rerouted_s for cost in costs),
            "packets_lost": sum(cost.packets_lost for cost in costs),
        }
    for one in summary["workloads"]:
        values = {**one, **(one["completion_s"] or {})}
        figures |= {f"workloads[{one['workload']}].{key}": values.get(key) for key, _, _ in _OF_STREAMS}
    if summary["jobs"]:
        figures["interruptions"] = sum(len(one["interruptions"]) for one in summary["jobs"])
    for one in summary["jobs"]:
        values = {**one, **(one["operation_s"] or {}), "busbw_bps": one["busbw_bps"] or 0}
        figures |= {f"{_job(one)}.{key}": values.get(key) for key, _, _ in _OF_JOBS}
    edges = series.run_edges(run, run.start_ns, run.stop_ns, CURVE_BIN_NS)
    return Observed(
        seed=run.seed,
        verdict=summary["verdict"],
        reasons=list(summary["reasons"]),
        warnings=list(summary["warnings"]),
        interrupted=summary["interrupted"],
        figures={key: float(value) for key, value in figures.items() if value is not None},
        bin_s=run.of_lab(CURVE_BIN_NS) / 1e9,
        curve=[round(bps) for bps in series.goodput_bins(run, [flow.name for flow in run.flows], edges)],
    )


def score(runs: Sequence[Observed]) -> float:
    """How good a variant is: what streams carried and jobs had as bus bandwidth, mean over the runs; more is better."""
    wanted = [
        value
        for run in runs
        for key, value in run.figures.items()
        if key == "goodput_bps" or key.endswith(".busbw_bps")
    ]
    return sum(wanted) / len(runs) if runs else 0.0


def worth(runs: Sequence[Observed]) -> tuple[bool, float]:
    """To choose a variant by: its score, but where some run was valid before where none was."""
    return any(run.verdict != "invalid" for run in runs), score(runs)


def rows(runs: Sequence[Observed]) -> list[Figure]:
    """All figures that any of the runs has, in a fixed order."""
    found = dict.fromkeys(key for run in runs for key in run.figures)
    listed = [row for row in _OF_RUN if row.key in found]
    for place in dict.fromkeys(key[: key.index("]") + 1] for key in found if "]" in key):
        table = _OF_JOBS if place.startswith("jobs") else _OF_STREAMS
        listed += [
            Figure(f"{place}.{key}", f"{_title(place)}: {words}", unit)
            for key, words, unit in table
            if f"{place}.{key}" in found
        ]
    return listed


def of(runs: Sequence[Observed], key: str) -> Distribution | None:
    """One figure over the valid runs of a column; None when none has it."""
    return Distribution.of([run.figures[key] for run in runs if run.verdict != "invalid" and key in run.figures])


def middle_curve(runs: Sequence[Observed]) -> tuple[list[float], list[float], list[float]]:
    """(lowest, median, highest) of the valid runs in each bin."""
    curves = [run.curve for run in runs if run.verdict != "invalid"]
    bins = [[curve[at] for curve in curves if at < len(curve)] for at in range(max(map(len, curves), default=0))]
    return [min(one) for one in bins], [median(one) for one in bins], [max(one) for one in bins]


def _job(told: Mapping[str, Any]) -> str:
    return f"jobs[{told['workload']}, {told['kind']}, {told['message_bytes']}]"


def _title(place: str) -> str:
    shelf, _, inside = place.rstrip("]").partition("[")
    if shelf == "workloads":
        return f"streams {inside}"
    _, kind, size = inside.split(", ")
    return f"{kind} of {format_size(int(size))}"


def _most(values: Any) -> float | None:
    return max((value for value in values if value is not None), default=None)
