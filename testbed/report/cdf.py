"""CDFs of several campaigns over one axis, as the pictures of docs/campaigns.md.

    python -m testbed.report.cdf docs/pictures kernel=runs/link-flap-campaign virtual=runs/link-flap-campaign-sim

writes an SVG for each of PICTURES, what share of all faults cost at most so much, and the table of the page to stdout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path

from testbed.measure.campaign import FIGURES, Campaign
from testbed.measure.distribution import Distribution
from testbed.measure.figure import Figure
from testbed.report import figures
from testbed.report.campaign import axis

PICTURES = ("rerouted_s", "worst_flow_losses", "restored_s", "dip_fraction", "ports.unused_round_trips")
_COLOURS = ("#0072B2", "#D55E00", "#009E73")  # told apart by everybody


def read(folder: Path) -> Campaign:
    """The campaign in a folder, finished or not."""
    files = sorted(folder.glob("seed-*.json"))
    return Campaign({int(path.stem.removeprefix("seed-")): json.loads(path.read_text()) for path in files})


def plot(figure: Figure, found: Mapping[str, Distribution]) -> str:
    """An SVG element with a curve for each label; where something never came it ends below 1."""
    scale, unit = axis(figure)
    drawn, axes = figures.new_figure(2.6)
    for colour, (label, distribution) in zip(_COLOURS, found.items(), strict=False):
        values = [scale * value for value in distribution.values if isfinite(value)]
        shares = [(rank + 1) / distribution.count for rank in range(len(values))]
        axes.step(values, shares, where="post", color=colour, label=f"{label} ({distribution.count} faults)")
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(f"{figure.words} ({unit})")
    axes.set_ylabel("share of faults")
    axes.legend(loc="lower right", frameon=False)
    return figures.as_svg(drawn, f"cdf-{figure.key}")


def write(into: Path, campaigns: Mapping[str, Campaign]) -> Iterable[Path]:
    """The pictures in a folder; figures that no campaign has are left out."""
    for figure in FIGURES:
        found = {label: one for label, campaign in campaigns.items() if (one := campaign.distribution(figure))}
        if figure.key in PICTURES and found:
            name = figure.key.rpartition(".")[2].removesuffix("_s").replace("_", "-")
            path = into / f"campaign-{name}.svg"
            path.write_text(plot(figure, found) + "\n")
            yield path


def table(campaigns: Mapping[str, Campaign]) -> str:
    """In Markdown: of each figure and campaign how many faults, the median with its interval, and the tail."""
    lines = ["| of each fault | where | faults | median | 95 % confidence | p95 | max |", f"|{'---|' * 7}"]
    for figure in FIGURES:
        for label, campaign in campaigns.items():
            found = campaign.distribution(figure)
            if found is None:
                continue
            interval = found.median_interval()
            between = "too few" if interval is None else " to ".join(figure.show(value) for value in interval)
            tail = (figure.show(value) for value in (found.quantile(0.5), found.quantile(0.95), found.values[-1]))
            median, p95, most = tail
            cells = (figure.words, label, str(found.count), median, between, p95, most)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    folder, *named = sys.argv[1:]
    labels = dict(argument.split("=", 1) for argument in named)
    all_of_them = {label: read(Path(path)) for label, path in labels.items()}
    for made in write(Path(folder), all_of_them):
        sys.stderr.write(f"{made}\n")
    sys.stdout.write(table(all_of_them) + "\n")
