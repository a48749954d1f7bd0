"""`mrclab run`: a scenario on a lab, recorded and judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from testbed.cli.output import json_option, result, say, show, table

if TYPE_CHECKING:
    from testbed.chaos.runner import RunResult
    from testbed.chaos.scenario import Scenario
    from testbed.lab.running import RunningLab

_FAULTS_SHOWN = 20
seed_option = click.option("--seed", type=int, help="Another seed than the scenario's.")
set_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override, like transport.retire_evs=false."
)


@contextmanager
def lab_of(scenario: Scenario, lab_name: str | None, *, quiet: bool) -> Iterator[RunningLab]:
    """The lab of a scenario, or the one named: brought up where it is not, once nothing is found wrong."""
    from testbed.chaos import check
    from testbed.chaos.hands import refuse_unable
    from testbed.chaos.kinds import find_kind
    from testbed.cli.labs import bring_up, up_line
    from testbed.lab import state
    from testbed.lab.running import open_lab, spec_of
    from testbed.topology import clos
    from testbed.topology.labfile import load_lab

    spec = load_lab(scenario.lab) if lab_name is None else spec_of(lab_name)
    check.check(scenario, clos.build(spec))
    for entry in scenario.faults:
        refuse_unable(find_kind(entry.kind))
    if lab_name is None or lab_name not in state.names():
        say(up_line(bring_up(lab_name or scenario.lab, quiet=quiet)))
    with open_lab(spec.name) as running:
        yield running


def show_outcome(outcome: RunResult) -> None:
    """The faults with what they cost, the expectations, the verdict with its reasons, and where the report is."""
    from testbed.measure import judgement

    summary = outcome.summary
    if summary["faults"]:
        rows = []
        for fault in summary["faults"][:_FAULTS_SHOWN]:
            rows.append([
                f"{fault['kind']} {fault['target']}", _seconds(fault["at_s"]), _seconds(fault["for_s"]),
                fault["packets_lost"], _seconds(fault["rerouted_s"]), _by_ports(fault["ports"]),
                _retired(fault["retiring"]),
                _percent(fault["dip_fraction"]), _of_oracle(fault),
            ])  # fmt: skip
        table(
            ["fault", "at", "for", "lost", "rerouted in", "by the ports", "EVs retired", "dip", "goodput of oracle"],
            rows,
        )
        if len(summary["faults"]) > _FAULTS_SHOWN:
            show(f"and {len(summary['faults']) - _FAULTS_SHOWN} more, all in the report")
        timing = summary["timing"]
        if timing["acts"] and not summary["virtual"]:
            late = f"median {_seconds(timing['late_median_s'])}, most {_seconds(timing['late_max_s'])}"
            show(f"{timing['acts']} acts on time but for: {late}")
        show()
    show_traffic(summary)
    rows = [
        [
            one.title,
            judgement.show(one.limit, one.unit),
            judgement.show(one.value, one.unit),
            "ok" if one.ok else "FAILED",
        ]
        for one in outcome.judgement.expectations
    ]
    if rows:
        table(["expectation", "limit", "value", ""], rows)
        show()
    checked = [*summary["flows"], *summary["jobs"]]
    delivered, wrong = (sum(one[name] for one in checked) for name in ("bytes_delivered", "bytes_wrong"))
    show(f"{delivered:,} bytes delivered and compared, {wrong} wrong; time dilation {summary['time_dilation']:,.0f}")
    if not summary["virtual"]:
        show(f"the CPUs were {summary['machine']['cpu_fraction']:.0%} busy")
    for text in (*outcome.judgement.warnings, *(outcome.judgement.reasons if outcome.verdict == "invalid" else ())):
        show(f"note: {text}")
    show(f"{outcome.verdict.upper()}   report: {outcome.paths['report']}")


def show_traffic(summary: dict[str, Any]) -> None:
    """Jobs, size by size; and streams, where several make one workload interesting by how they share."""
    from testbed.topology.units import format_rate, format_size

    if summary["jobs"]:
        rows = []
        for job in summary["jobs"]:
            times = job["operation_s"] or dict.fromkeys(("p50", "p99"))
            speeds = ["-" if job[name] is None else format_rate(job[name]) for name in ("algbw_bps", "busbw_bps")]
            done = f"{job['operations']}" + ("" if job["wanted"] is None else f" of {job['wanted']}")
            rows.append([
                f"{job['kind']}, {job['ranks']} ranks", format_size(job["message_bytes"]), done, *speeds,
                _seconds(times["p50"]), _seconds(times["p99"]), len(job["interruptions"]),
            ])  # fmt: skip
            rows += [
                [
                    f"  {one['fault']}, {_seconds(one['at_s'])}", "", one["operations"], "", "",
                    _seconds(one["p50"]), _seconds(one["p99"]), "",
                ]
                for one in job["during"]
            ]  # fmt: skip
        table(["job", "size", "operations", "algbw", "busbw", "p50", "p99", "interruptions"], rows)
        show()
    if len(summary["workloads"]) > 1 or any(flow["qps"] > 1 for flow in summary["flows"]):
        rows = [
            [
                f"workloads[{one['workload']}]", one["flows"], format_rate(one["goodput_bps"]),
                _percent(one["min_flow_share"]), _percent(one["max_flow_share"]), f"{one['jain_index']:.3f}",
            ]
            for one in summary["workloads"]
        ]  # fmt: skip
        if rows:
            table(["streams", "flows", "goodput", "least flow", "best flow", "Jain"], rows)
            show()


def _seconds(value: float | None) -> str:
    from testbed.topology.units import format_duration

    return "-" if value is None else format_duration(value * 1e9)


def _by_ports(seen: dict[str, Any]) -> str:
    """What the fabric's own ports say of the two columns before, and when a dead path was out of use."""
    if seen["lost_data"] is not None:
        words = f"{seen['lost_data']} lost, {_seconds(seen['rerouted_s'])}"
    else:
        words = "-" if seen["unused_s"] is None else f"used for {_seconds(seen['unused_s'])}"
    trips = seen["unused_round_trips"]
    return words if trips is None else f"{words} ({trips:.1f} RTT)"


def _retired(seen: dict[str, Any]) -> str:
    """How long after the first loss, in round trips, beside the reorder window (medians of its EVs)."""
    trips, window = seen["after_round_trips"], seen["window_round_trips"]
    if trips is None:
        return "-"
    return f"after {trips:.2f} RTT" + ("" if window is None else f" (window {window:.2f})")


def _of_oracle(fault: dict[str, Any]) -> str:
    from testbed.topology.units import format_rate

    if fault["goodput_bps"] is None:
        return "-"
    return f"{format_rate(fault['goodput_bps'])} of {format_rate(fault['oracle_bps'])}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


@click.command("run")
@click.argument("scenario")
@click.option(
    "--lab", "lab_name", metavar="LAB", help="Another lab than the scenario names: one that is up, or a lab file."
)
@seed_option
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for the results; default: runs/NAME."
)
@set_option
@json_option
def run_verb(
    scenario: str, lab_name: str | None, seed: int | None, out: Path | None, overrides: tuple[str, ...], as_json: bool
) -> int:
    """Run SCENARIO on its lab, and judge it. A file, or a name in scenarios/; brings the lab up if it is not."""
    from testbed.chaos.runner import run_scenario
    from testbed.chaos.scenario import load_scenario
    from testbed.topology.units import format_duration

    wanted = load_scenario(scenario, overrides if seed is None else (*overrides, f"seed={seed}"))
    with lab_of(wanted, lab_name, quiet=as_json) as running:
        say(f"running {wanted.name} for {format_duration(wanted.duration)}")
        outcome = run_scenario(wanted, running, out or Path("runs") / wanted.name)
    result(as_json, outcome.summary, lambda: show_outcome(outcome))
    return outcome.exit_code
