"""`mrclab health`: Clustermapper's map of links, and what making it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from testbed.cli.output import json_option, result, say, show, table
from testbed.cli.quantity import DURATION

if TYPE_CHECKING:
    from testbed.health.cost import CostReport
    from testbed.health.gather import Map
    from testbed.health.session import Session


@click.command("health")
@click.argument("name", required=False)
@click.option("--watch", is_flag=True, help="Go on until interrupted, and say what changes.")
@click.option("--for", "for_ns", type=DURATION, metavar="DURATION", help="Probe for so long before the map is shown.")
@click.option("--all", "all_links", is_flag=True, help="Every link and switch, not only those that are not ok.")
@click.option("--cost", is_flag=True, help="What the probes take of links and CPUs: measured, and by the formula.")
@json_option
def health_verb(name: str | None, watch: bool, for_ns: int | None, all_links: bool, cost: bool, as_json: bool) -> int:
    """Which links and switches are down, lossy or slow.

    Where the lab file has no policy for health, probes run as long as this verb does.
    """
    from testbed.health.session import session
    from testbed.lab.running import the_lab

    if cost and watch:
        raise click.UsageError("--cost measures once; leave --watch out")
    with the_lab(name) as lab:
        if cost:
            from testbed.health.cost import measure

            _show_cost(measure(lab, for_ns, progress=say), as_json)
            return 0
        with session(lab, say) as looking:
            if watch:
                _watch(looking, as_json)
            else:
                found = looking.look_after(for_ns)
                result(as_json, looking.told(found), lambda: _show_map(looking, found, all_links))
    return 0


def _watch(looking: Session, as_json: bool) -> None:
    import json

    for found in looking.rounds():
        for change in found.changes:
            if change.finding.state == "ok" and change.old == "unknown":
                continue
            if as_json:
                show(json.dumps({"schema_version": 1, **looking.told_change(change)}))
            else:
                finding = change.finding
                show(
                    f"{looking.clock(change.t_ns)}  {change.name:<16} {change.old} -> {finding.state}  {finding.why}"
                    f"{_loss(finding.loss, finding.probes)}, found by {looking.hosts(finding)}"
                )


def _show_map(looking: Session, found: Map, all_links: bool) -> None:
    rows = [
        [
            name,
            finding.state,
            f"{finding.loss:.1%}" if finding.probes else "",
            f"{finding.rtt_p50_ns / 1e6:.2f}" if finding.rtt_p50_ns else "",
            f"{finding.rtt_p99_ns / 1e6:.2f}" if finding.rtt_p50_ns else "",
            f"{finding.marked:.1%}" if finding.probes else "",
            f"{finding.confidence:.4g}",
            looking.since(found, finding),
            looking.hosts(finding),
            finding.why,
        ]
        for name, finding in found.findings.items()
        if all_links or finding.state != "ok"
    ]
    if rows:
        table(["element", "state", "loss", "p50 ms", "p99 ms", "CE", "sure", "since", "found by", "why"], rows)
    show(looking.summary(found))


def _loss(loss: float, probes: int) -> str:
    return f" ({loss:.1%} of {probes})" if loss else ""


def _show_cost(report: CostReport, as_json: bool) -> None:
    def render() -> None:
        table(["", "measured", "formula", "measured / formula"], report.rows())
        for line in report.lines():
            show(line)

    result(as_json, report.as_dict(), render)
