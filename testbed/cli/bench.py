"""`mrclab bench`: how fast mrclab is on this machine, by ratios to what the machine itself can do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from testbed.cli.output import SCHEMA_VERSION, json_option, result, say, show, table

if TYPE_CHECKING:
    from testbed.bench.frame import Comparison


@click.command("bench")
@click.argument("names", nargs=-1, metavar="[BENCH]...")
@click.option("--alternations", type=click.IntRange(1, 100), help="Measurements of each side; default: the bench's.")
@click.option("--check", "earlier", type=click.Path(path_type=Path), help="Compare ratios with this earlier result.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the result to this file as well.")
@click.option("--list", "list_only", is_flag=True, help="Only say which benches there are.")
@json_option
def bench_verb(
    names: tuple[str, ...],
    alternations: int | None,
    earlier: Path | None,
    out: Path | None,
    list_only: bool,
    as_json: bool,
) -> int:
    """Measure BENCHes, or all of them. Exit code 1 when a ratio is worse than in the result given by --check."""
    import json

    from agents import compiled
    from testbed import doctor
    from testbed.bench import frame
    from testbed.topology.errors import InputError

    benches = {name: frame.find(name) for name in names or frame.BENCHES}
    if list_only:
        rows = [[name, bench.title, bench.ratio_of or "-"] for name, bench in benches.items()]
        listed = {name: {"title": bench.title, "ratio_of": bench.ratio_of} for name, bench in benches.items()}
        result(as_json, {"benches": listed}, lambda: table(["bench", "measures", "ratio"], rows))
        return 0
    before = frame.load(earlier) if earlier is not None else {}
    if earlier is not None and not any(frame.RATIO in before.get(name, {}) for name in benches):
        raise InputError(f"{earlier} has no ratio of {' or '.join(benches)}", f"it has {', '.join(before) or 'none'}")
    if any(bench.needs_root for bench in benches.values()):
        doctor.require("bench")
    if out is not None:
        _try_to_write(out)  # now, and not after minutes of measuring
    results: dict[str, Any] = {}
    comparisons: list[Comparison] = []
    told: dict[str, Any] = {"compiled": compiled.in_use(), "benches": results}
    for name, bench in benches.items():
        say(f"bench {name}: {bench.title}")
        results[name] = frame.measure(bench, alternations, say)
        comparisons = frame.compare(before, results)
        told["comparisons"] = [_as_dict(one) for one in comparisons]
        if out is not None:  # after each bench: what is measured is kept when a later one fails
            out.write_text(json.dumps({"schema_version": SCHEMA_VERSION, **told}, indent=2) + "\n")
    if not compiled.in_use():
        say("the agents are not compiled: these are figures of plain Python")
    result(as_json, told, lambda: _show(results, comparisons))
    for name in frame.not_compared(before, comparisons):
        say(f"bench {name} is in {earlier} and was not measured now")
    return 0 if all(one.ok for one in comparisons) else 1


def _try_to_write(out: Path) -> None:
    """Raises InputError when that cannot be; leaves no file where there was none."""
    from testbed.topology.errors import InputError

    there = out.exists()
    try:
        out.open("a").close()
        if not there:
            out.unlink()
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}", "name another file with --out") from error


def _as_dict(one: Comparison) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(one)


def _show(results: dict[str, Any], comparisons: list[Comparison]) -> None:
    rows: list[list[Any]] = []
    for name, one in results.items():
        ratio = f"{one['ratio']:.2f}  ({one['ratio_min']:.2f} to {one['ratio_max']:.2f})" if "ratio" in one else "-"
        rows.append([name, one["ratio_of"] if "ratio" in one else "-", ratio, one["alternations"]])
    table(["bench", "ratio of", "median (least to most)", "alternations"], rows)
    for name, one in results.items():
        show()
        table([f"{name}: medians", ""], [[key, f"{value:,.4g}"] for key, value in one["medians"].items()])
    if comparisons:
        show()
        table(
            ["bench", "before", "now", "limit", ""],
            [
                [one.bench, f"{one.before:.2f}", f"{one.now:.2f}", f"{one.limit:.2f}", "ok" if one.ok else "WORSE"]
                for one in comparisons
            ],
        )
