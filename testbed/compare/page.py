"""compare.html: the columns side by side in one file: curves, a table, what is unlike, all settings tried."""

from __future__ import annotations

from typing import Any

import jinja2
from markupsafe import Markup

from testbed.measure.figure import Figure
from testbed.report import figures

COLOURS = ("#0072B2", "#009E73", "#D55E00", "#E69F00", "#CC79A7")  # Okabe and Ito


def render(told: dict[str, Any]) -> str:
    """The page of what compare.json has."""
    loader = jinja2.PackageLoader("testbed.report")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    there = [column for column in told["columns"] if not column["missing"]]
    rows = [{"words": row["words"], "cells": [cell(column, Figure(**row)) for column in there]} for row in told["rows"]]
    drawn = figures.available() and any(column["curve"]["median_bps"] for column in there)
    return environment.get_template("compare.html").render(
        told=told,
        there=there,
        missing=[column for column in told["columns"] if column["missing"]],
        rows=rows,
        svg=Markup(_curves(there)) if drawn else None,
    )


def cell(column: dict[str, Any], figure: Figure) -> dict[str, str]:
    """A figure of a column for people: its median, and between what that lies; empty when nothing was measured."""
    found = column["figures"].get(figure.key)
    if found is None:
        return {"median": "–", "between": ""}
    if found["min"] == found["max"]:
        return {"median": _show(figure, found["median"]), "between": ""}
    interval = found["median_interval"]
    low, high = interval if interval is not None else (found["min"], found["max"])
    words = "" if interval is not None else "all: "
    return {
        "median": _show(figure, found["median"]),
        "between": f"{words}{_show(figure, low)} to {_show(figure, high)}",
    }


def _show(figure: Figure, value: float | None) -> str:
    return figure.show(float("inf") if value is None else value)


def _curves(there: list[dict[str, Any]]) -> str:
    """Goodput over time, a line for each column; an SVG element."""
    figure, axes = figures.new_figure(3.6)
    longest_s = max(len(column["curve"]["median_bps"]) * (column["curve"]["bin_s"] or 0) for column in there)
    scale, unit = (1, "seconds") if longest_s > 0.1 else (1e3, "ms")
    for column, colour in zip(there, COLOURS, strict=False):
        curve = column["curve"]
        times = [scale * (at + 0.5) * curve["bin_s"] for at in range(len(curve["median_bps"]))]
        low, middle, high = ([bps / 1e6 for bps in curve[name]] for name in ("min_bps", "median_bps", "max_bps"))
        axes.plot(times, middle, color=colour, linewidth=1.4, label=column["name"])
        axes.fill_between(times, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("goodput, Mb/s of payload")
    axes.set_xlabel(f"{unit} since the start of the traffic")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figures.as_svg(figure, "compare")
