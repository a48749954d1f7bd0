"""The figures of a report as inline SVG. They need matplotlib, which is optional (extra `report`).

No pyplot and no global state: a figure object, drawn to SVG. `available` says whether figures can be made.
"""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from testbed.measure import evmap, phases, series
from testbed.measure.record import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GOODPUT_BIN_NS = 100_000_000
EVMAP_BIN_NS = 100_000_000

# Okabe and Ito's colours: eight planes that colour-blind readers can tell apart, too.
_PLANE_COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#E9DC6B", "#E69F00", "#D55E00", "#CC79A7", "#999999")
_FAULT_COLOUR = "#b00020"
_WIDTH_INCHES = 10.5
_STYLE = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9.0}


def available() -> bool:
    """Is matplotlib installed?"""
    return importlib.util.find_spec("matplotlib") is not None


def goodput(run: Run) -> str:
    """Goodput over time, the planes stacked, faults shaded, with the capacity oracle's value; an SVG element."""
    edges = series.run_edges(run, run.start_ns, run.stop_ns, GOODPUT_BIN_NS)
    bins = series.plane_bins(run, [flow.name for flow in run.flows], edges)
    figure, axes = new_figure(3.4)
    times = [run.seconds(t_ns) for t_ns in edges]
    floor = [0.0] * len(bins)
    for plane in range(run.planes):
        top = [low + row[plane] / 1e6 for low, row in zip(floor, bins, strict=True)]
        axes.fill_between(
            times,
            _steps(floor),
            _steps(top),
            step="post",
            color=_PLANE_COLOURS[plane],
            linewidth=0,
            label=f"plane {plane}",
        )
        floor = top
    _shade_faults(run, axes)
    for number, phase in enumerate(phases.phases(run)):
        span = [run.seconds(phase.start_ns), run.seconds(phase.stop_ns)]
        label = "capacity oracle" if number == 0 else None
        axes.plot(span, [phase.oracle_bps / 1e6] * 2, color="black", linestyle="--", linewidth=1, label=label)
    axes.set_xlim(0, times[-1] if len(times) > 1 else 1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("goodput, Mb/s of payload")
    axes.set_xlabel("seconds since the start of the traffic")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return as_svg(figure, "goodput")


def ev_map(run: Run) -> str:
    """State of each path (plane, T1) over time: how many of the flows had it out of use; an SVG element."""
    edges = series.run_edges(run, run.start_ns, run.stop_ns, EVMAP_BIN_NS)
    rows = evmap.rows(run, edges)
    figure, axes = new_figure(max(1.6, 0.6 + 0.16 * len(rows)))
    times = [run.seconds(t_ns) for t_ns in edges]
    mesh = axes.pcolormesh(
        times, range(len(rows) + 1), [row.out_of_use for row in rows], cmap="Reds", vmin=0, vmax=1, shading="flat"
    )
    for first, _ in pairwise(range(0, len(rows) + 1, run.clos.spec.t1s_per_plane)):
        axes.axhline(first, color="#888888", linewidth=0.6)
    axes.set_yticks([i + 0.5 for i in range(len(rows))], [f"p{row.plane} T1-{row.t1}" for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("seconds since the start of the traffic")
    figure.colorbar(mesh, ax=axes, label="share of flows", pad=0.01)
    return as_svg(figure, "evmap")


def new_figure(height_inches: float) -> tuple[Figure, Axes]:
    """An empty figure in the reports' style, of their width."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
        axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _steps(values: Sequence[float]) -> list[float]:
    """Bin values for a plot by edges: the last one twice."""
    return [*values, *values[-1:]] if values else [0.0]


def _shade_faults(run: Run, axes: Any) -> None:
    for number, fault in enumerate(run.faults):
        until_ns = run.stop_ns if fault.until_ns is None else fault.until_ns
        label = "fault" if number == 0 else None
        since_s, until_s = run.seconds(fault.since_ns), run.seconds(until_ns)
        axes.axvspan(since_s, until_s, color=_FAULT_COLOUR, alpha=0.14, linewidth=0, label=label)
        axes.axvline(since_s, color=_FAULT_COLOUR, linewidth=0.6, alpha=0.6)


def as_svg(figure: Figure, name: str) -> str:
    """The figure as an element to stand in HTML: no XML head, no metadata, ids of its own."""
    from matplotlib import rc_context

    text = io.StringIO()
    with rc_context({**_STYLE, "svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    element = text.getvalue()
    element = element[element.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
