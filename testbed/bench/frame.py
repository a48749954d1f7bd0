"""What a bench is, how it is run, and how two results are compared.

A bench is a module of this package with an attribute `BENCH`. It sets up what it needs once, then measures in
alternations: each is one call that measures all sides of the comparison, one after the other, and returns numbers by
name. The result holds the median of every number over the alternations; the ratio is the median of the ratios, since
both sides of one alternation have met the same machine.
"""

from __future__ import annotations

import importlib
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from testbed.topology.errors import InputError, nearest

RATIO = "ratio"  # the number that is the figure, where a bench has one

Numbers = dict[str, float]  # by name, with the unit in it: `packets_per_s`
Alternation = Callable[[], Numbers]
Say = Callable[[str], None]

# bench -> its module, in the order in which they run; imported only when asked for
BENCHES: dict[str, str] = {
    "up": "testbed.bench.up",
    "growth": "testbed.bench.growth",
    "sim": "testbed.bench.sim",
    "memory": "testbed.bench.memory",
    "probe": "testbed.bench.probe",
    "spray": "testbed.bench.spray",
    "aggregate": "testbed.bench.aggregate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One bench. `prepare` sets up, gives the function that measures once, and clears away when its context ends."""

    title: str  # what is measured
    prepare: Callable[[Say], AbstractContextManager[Alternation]]
    ratio_of: str | None = None  # in words: what is divided by what; None: there is no ratio
    better: Literal["higher", "lower"] = "higher"  # which ratio is
    tolerance: float = 0.15  # a ratio that is worse by more than this share of the earlier one is worse
    alternations: int = 5
    needs_root: bool = True


def find(name: str) -> Bench:
    """The bench of that name. Raises InputError, with the nearest one, when there is none."""
    if name not in BENCHES:
        raise InputError(f"there is no bench {name!r}", nearest(name, BENCHES) or f"there are {', '.join(BENCHES)}")
    bench = importlib.import_module(BENCHES[name]).BENCH
    assert isinstance(bench, Bench)
    return bench


def measure(bench: Bench, alternations: int | None, say: Say) -> dict[str, Any]:
    """Run a bench; the result is an object for JSON."""
    wanted = alternations or bench.alternations
    readings: list[Numbers] = []
    with bench.prepare(say) as once:
        for number in range(wanted):
            say(f"alternation {number + 1} of {wanted}")
            readings.append(once())
    return summary(bench, readings)


def summary(bench: Bench, readings: Sequence[Numbers]) -> dict[str, Any]:
    """Medians of every number over at least one alternation, and the spread of the ratio."""
    medians = {name: statistics.median(reading[name] for reading in readings) for name in readings[0]}
    ratio = medians.pop(RATIO, None)
    result: dict[str, Any] = {"title": bench.title, "alternations": len(readings)}
    if ratio is not None:
        ratios = [reading[RATIO] for reading in readings]
        result |= {
            RATIO: ratio,
            "ratio_of": bench.ratio_of,
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
            "better": bench.better,
            "tolerance": bench.tolerance,
        }
    return {**result, "medians": medians, "readings": list(readings)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A ratio now beside an earlier one."""

    bench: str
    before: float
    now: float
    limit: float  # the worst that passes
    ok: bool


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Comparison]:
    """The benches that both results (objects by bench) have a ratio of; by the tolerance of the one now."""
    found = []
    for name, result in now.items():
        earlier = before.get(name, {}).get(RATIO)
        if earlier is None or RATIO not in result:
            continue
        higher = result["better"] == "higher"
        limit = earlier * (1 - result["tolerance"] if higher else 1 + result["tolerance"])
        ratio = result[RATIO]
        found.append(Comparison(name, earlier, ratio, limit, ratio >= limit if higher else ratio <= limit))
    return found


def load(path: Path) -> dict[str, Any]:
    """The benches of a result on file. Raises InputError for what is none."""
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "give a file that `mrclab bench --json` wrote") from error
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise InputError("not JSON", "give a file that `mrclab bench --json` wrote", file=path, line=line) from error
    benches = content.get("benches") if isinstance(content, dict) else None
    if not isinstance(benches, dict) or not all(_is_result(one) for one in benches.values()):
        raise InputError("not the result of a bench", "give a file that `mrclab bench --json` wrote", file=path, line=1)
    return benches


def _is_result(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get(RATIO, 0.0), int | float)


def not_compared(before: Mapping[str, Any], comparisons: Iterable[Comparison]) -> list[str]:
    """Benches with an earlier ratio that was not measured now."""
    compared = {one.bench for one in comparisons}
    return [name for name, result in before.items() if RATIO in result and name not in compared]
