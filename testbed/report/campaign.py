"""campaign.html: a campaign for people in one file; each figure as histogram and CDF, from how many faults."""

from __future__ import annotations

from math import isfinite
from typing import Any

import jinja2
from markupsafe import Markup

from testbed.measure.campaign import FIGURES, Campaign
from testbed.measure.distribution import Distribution
from testbed.measure.figure import Figure
from testbed.report import figures

_BINS = 30


def render(campaign: Campaign, told: dict[str, Any]) -> str:
    """The page; `told` is the campaign.json of the same campaign."""
    loader = jinja2.PackageLoader("testbed.report")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    rows = []
    for figure in FIGURES:
        found = campaign.distribution(figure)
        if found is not None:
            svg = Markup(plot(figure, found)) if figures.available() else None
            rows.append({"figure": figure, "told": _shown(figure, found), "svg": svg})
    return environment.get_template("campaign.html").render(told=told, rows=rows)


def _shown(figure: Figure, found: Distribution) -> dict[str, str]:
    interval = found.median_interval()
    between = "too few" if interval is None else " to ".join(figure.show(value) for value in interval)
    return {
        "count": str(found.count),
        "median": figure.show(found.quantile(0.5)),
        "interval": between,
        "p95": figure.show(found.quantile(0.95)),
        "max": figure.show(found.values[-1]),
    }


def axis(figure: Figure) -> tuple[float, str]:
    """What a figure's values are multiplied with in a plot, and the unit that they have then."""
    return (1e3, "ms") if figure.unit == "s" else (100, "%") if figure.unit == "fraction" else (1, figure.unit)


def plot(figure: Figure, found: Distribution) -> str:
    """Histogram and CDF over one axis; an SVG element. What never came is in neither: the CDF ends below 1."""
    scale, unit = axis(figure)
    drawn, axes = figures.new_figure(2.4)
    values = [scale * value for value in found.values if isfinite(value)]
    axes.hist(values, bins=min(_BINS, max(1, len(values))), color="#56B4E9", label="faults")
    axes.set_xlabel(f"{figure.words} ({unit})")
    axes.set_ylabel("faults")
    cumulative = axes.twinx()
    cumulative.step(values, [(rank + 1) / found.count for rank in range(len(values))], where="post", color="#D55E00")
    cumulative.set_ylim(0, 1.02)
    cumulative.set_ylabel("share (CDF)")
    return figures.as_svg(drawn, f"campaign-{figure.key}")
