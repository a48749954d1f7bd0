"""What is read off the summaries of runs, by campaigns and comparisons alike: figures with their words and units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any

from testbed.topology.units import format_duration, format_rate

VERDICTS = ("pass", "fail", "invalid")


@dataclass(frozen=True, slots=True)
class Figure:
    """Its key, what it is, and its unit: "s", "rate" (b/s), "fraction", "index", or what is counted."""

    key: str
    words: str
    unit: str

    def show(self, value: float | None) -> str:
        """For people; a time that never came is infinite, or None as it is in JSON."""
        if value is None or isinf(value):
            return "never"
        match self.unit:
            case "s":
                return format_duration(value * 1e9)
            case "rate":
                return format_rate(round(value))
            case "fraction":
                return f"{value:.2%}"
            case "index":
                return f"{value:.3f}"
        return f"{value:.4g}"


def verdicts_of(runs: Iterable[str]) -> dict[str, int]:
    """How many runs passed, failed, and were not valid."""
    verdicts = list(runs)
    return {name: verdicts.count(name) for name in VERDICTS}


def bytes_wrong(summary: Mapping[str, Any]) -> int:
    """Of all streams and jobs of a run."""
    return sum(part["bytes_wrong"] for part in (*summary["flows"], *summary["jobs"]))
