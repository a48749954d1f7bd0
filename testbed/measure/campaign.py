"""The summaries of many runs of one scenario -> distributions of what its faults cost, and the runs that were worst.

Works on `summary.json` alone, so that a campaign can be read again later. Runs that were not valid count for nothing
but their number.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from testbed.measure.distribution import Distribution, share_interval
from testbed.measure.figure import Figure, bytes_wrong, verdicts_of

SCHEMA_VERSION = 1
WORST_SHOWN = 5

Summary = dict[str, Any]


# of each fault: the key is that of its entry in a summary's `faults`
FIGURES = (
    Figure("rerouted_s", "time from the first packet lost to the last", "s"),
    Figure("ports.unused_s", "time until a dead path was unused, by the ports", "s"),
    Figure("ports.unused_round_trips", "the same in loaded round trips", "round trips"),
    Figure(
        "retiring.after_round_trips", "time from an EV's first loss until it was retired, median of EVs", "round trips"
    ),
    Figure("retiring.window_round_trips", "the reorder window by which they were retired", "round trips"),
    Figure("recovered_s", "time until goodput was back", "s"),
    Figure("restored_s", "time from the end of the fault until its EVs were back", "s"),
    Figure("packets_lost", "packets lost, all flows", "packets"),
    Figure("worst_flow_losses", "packets lost by one queue pair", "packets"),
    Figure("dip_fraction", "goodput missing in the worst bin", "fraction"),
    Figure("late_s", "how late the fault was put in", "s"),
)


# What never came back counts as infinitely late, or the worst would be missing. JSON has no number for that: of a fault
# with a dip, null says so.
_NEVER: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "recovered_s": lambda fault: fault["recovered_s"] is None and fault["dip_fraction"] is not None,
    "restored_s": lambda fault: fault["evs_not_restored"] > 0,
}


def value_of(figure: Figure, fault: Mapping[str, Any]) -> float | None:
    """A figure of a summary's entry of a fault, infinite for what never came; None where nothing was to measure."""
    if figure.key in _NEVER and _NEVER[figure.key](fault):
        return inf
    value: Any = fault
    for name in figure.key.split("."):
        value = None if value is None else value.get(name)  # an older run may not have measured it
    return None if value is None else float(value)


@dataclass(frozen=True)
class Campaign:
    """The runs by seed, in the order of their seeds."""

    summaries: dict[int, Summary]

    @property
    def valid(self) -> dict[int, Summary]:
        """The runs that say something about the network."""
        return {seed: one for seed, one in self.summaries.items() if one["verdict"] != "invalid"}

    def distribution(self, figure: Figure) -> Distribution | None:
        """Of all faults of all valid runs; None when nothing was measured."""
        return Distribution.of([
            value
            for summary in self.valid.values()
            for fault in summary["faults"]
            if (value := value_of(figure, fault)) is not None
        ])  # fmt: skip

    def worst(self) -> list[tuple[int, str]]:
        """(seed, why) of the runs to look at first: those that failed, then those that lost most and rerouted last."""

        def badness(item: tuple[int, Summary]) -> tuple[bool, float, float]:
            faults = item[1]["faults"]
            lost = max((fault["worst_flow_losses"] for fault in faults), default=0)
            rerouted = max((fault["rerouted_s"] or 0.0 for fault in faults), default=0.0)
            return item[1]["verdict"] == "fail", lost, rerouted

        ranked = sorted(self.valid.items(), key=badness, reverse=True)[:WORST_SHOWN]
        found = []
        for seed, summary in ranked:
            failed, lost, rerouted = badness((seed, summary))
            words = f"a flow lost {lost:g} packets, rerouted in {1e3 * rerouted:.3g} ms"
            found.append((seed, f"failed {', '.join(summary['reasons'])}; {words}" if failed else words))
        return found

    def as_dict(self, repeat: Sequence[str]) -> dict[str, Any]:
        """For campaign.json; `repeat` is the command of which `--seed N` makes a run again."""
        counts = verdicts_of(summary["verdict"] for summary in self.summaries.values())
        valid = counts["pass"] + counts["fail"]
        figures = {figure.key: self.distribution(figure) for figure in FIGURES}
        return {
            "schema_version": SCHEMA_VERSION,
            "runs": len(self.summaries),
            "verdicts": counts,
            "pass_share": None if not valid else counts["pass"] / valid,
            "pass_share_interval": None if not valid else list(share_interval(counts["pass"], valid)),
            "faults": sum(len(summary["faults"]) for summary in self.valid.values()),
            "bytes_wrong": sum(map(bytes_wrong, self.summaries.values())),
            "figures": {key: None if found is None else found.as_dict() for key, found in figures.items()},
            "not_valid": {
                seed: summary["reasons"] for seed, summary in self.summaries.items() if summary["verdict"] == "invalid"
            },
            "worst": [
                {"seed": seed, "why": why, "repeat": shlex.join([*repeat, "--seed", str(seed)])}
                for seed, why in self.worst()
            ],
        }
