"""How a run was judged, as data: what the expectations made of it (`testbed.chaos`) and the report shows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from testbed.topology.units import format_duration

Unit = Literal["count", "fraction", "duration", "round trips"]  # durations are in ns
Verdict = Literal["pass", "fail", "invalid"]


def show(value: float | None, unit: Unit) -> str:
    """A limit or value for people."""
    if value is None:
        return "nothing to measure"
    if math.isinf(value):
        return "never"
    if unit == "duration":
        return format_duration(value)
    if unit == "round trips":
        return f"{value:.2f} RTT"
    return f"{value:.1%}" if unit == "fraction" else f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class Judged:
    """One expectation: its limit, what the run did, and the number of observations behind that.

    `value` is None when there was nothing to measure, and infinite for what never happened. `place` is `faults[0]` or
    `workloads[1]` for what was asked of those, empty for the run.
    """

    name: str
    doc: str
    unit: Unit
    limit: float
    value: float | None
    observations: int
    ok: bool
    place: str = ""

    @property
    def title(self) -> str:
        """The name, with its place in front when it is not the run's."""
        return f"{self.place}.{self.name}" if self.place else self.name


@dataclass(frozen=True)
class Judgement:
    """The verdict, with the reasons of an invalid run or the names of the expectations that were missed.

    `warnings` tell what the machine lacked where that did not decide.
    """

    verdict: Verdict
    reasons: list[str] = field(default_factory=list)
    expectations: list[Judged] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
