"""report.html: a run for people, in one file without any outside resource.

The template only lays out; every figure comes from `testbed.measure`, each with how it was measured and from how many
observations. Everything that is not a figure of our own is escaped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import jinja2
from markupsafe import Markup

from testbed.measure import evmap, faults, phases, ports, ports_view, retiring, series
from testbed.measure.judgement import Judgement, show
from testbed.measure.record import (
    CarrierChanged,
    EvChanged,
    FaultActed,
    PlaneDecided,
    PortChanged,
    QpFailed,
    Run,
    RunEvent,
    at_end,
)
from testbed.report import figures, page, summary
from testbed.topology.units import format_duration, format_rate, format_size

MAX_EVENTS = 300  # of the list in the report; events.jsonl has them all
MAX_PORTS = 30  # likewise; summary.json has them all

_VERDICT_WORDS = {
    "pass": "every expectation was met",
    "fail": "not met: ",
    "invalid": "this run says nothing about the network: ",
}


@dataclass(frozen=True, slots=True)
class _EventRow:
    t_s: float
    what: str


def render(run: Run, judgement: Judgement, recorded: dict[str, Any]) -> str:
    """The whole report as HTML, with what `recording.record` made of the run to be played again."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("testbed.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        rate=format_rate, size=format_size, duration=_duration, percent=_percent, integer=_integer, at=partial(_at, run)
    )
    return environment.get_template("report.html").render(replay=page.whole(recorded), **_context(run, judgement))


def _context(run: Run, judgement: Judgement) -> dict[str, Any]:
    edges = series.run_edges(run, run.start_ns, run.stop_ns)
    events = [row for event in run.events if (row := _event_row(run, event))]
    stretches = phases.phases(run)
    words = _VERDICT_WORDS[judgement.verdict]
    notable = ports.notable(run.ports)
    return {
        "run": run,
        "spec": run.clos.spec,
        "summary": summary.summarise(run, judgement),
        "verdict": judgement.verdict,
        "warnings": judgement.warnings,
        "verdict_words": words + "; ".join(judgement.reasons) if judgement.verdict != "pass" else words,
        "expectations": [(row, show(row.limit, row.unit), show(row.value, row.unit)) for row in judgement.expectations],
        "goodput_svg": Markup(figures.goodput(run)) if _drawable(edges) else None,
        "evmap_svg": Markup(figures.ev_map(run)) if _drawable(edges) and run.clos.spec.source_routed else None,
        "figures_available": figures.available(),
        "evmap": evmap.rows(run, edges) if len(edges) > 1 else [],
        "retired": {fault.number: retiring.of_fault(run, fault) for fault in run.faults},
        "costs": [(cost, ports_view.of_fault(run, cost.fault)) for cost in faults.costs(run)],
        "held": {fault.number: phases.during(run, fault, stretches) for fault in run.faults},
        "phases": [phase for phase in stretches if phase.goodput_bps is not None],
        "phases_left_out": sum(phase.goodput_bps is None for phase in stretches),
        "bin": format_duration(run.of_lab(series.BIN_NS)),
        "figure_bin": format_duration(run.of_lab(figures.GOODPUT_BIN_NS)),
        "settle": format_duration(run.of_lab(phases.SETTLE_NS)),
        "events": list(islice(events, MAX_EVENTS)),
        "events_left_out": max(0, len(events) - MAX_EVENTS),
        "ports_total": ports.total(run.ports),
        "ports_notable": list(islice(notable.items(), MAX_PORTS)),
        "ports_left_out": max(0, len(notable) - MAX_PORTS),
        "samples": sum(len(samples) for samples in run.received.values()),
    }


def _drawable(edges: list[int]) -> bool:
    return figures.available() and len(edges) > 1


def _event_row(run: Run, event: RunEvent) -> _EventRow | None:
    """A line for people; None for what would only be noise in a list (each lost packet)."""
    match event:
        case FaultActed(active=active):
            what = f"{event.kind} {event.target}{at_end(event.end)} {'put in' if active else 'undone'}"
        case CarrierChanged():
            what = f"{event.host}: carrier of plane {event.plane} {'is back' if event.up else 'is lost'}"
        case PlaneDecided():
            what = event.words
        case PortChanged():
            change = "taken back" if event.up else "given up"
            what = f"{event.flow}: plane {event.plane} {change} by {event.host} (port of its {event.end} end)"
        case EvChanged():
            what = f"{event.flow}: EV {event.ev:#010x} {event.old} -> {event.new} ({event.why})"
        case QpFailed():
            what = f"{event.flow}: queue pair failed: {event.why}"
        case _:
            return None
    return _EventRow(run.seconds(event.t_ns), what)


def _at(run: Run, seconds: float) -> str:
    """A moment of the run: runs at real rates last some milliseconds."""
    return f"{seconds:.3f} s" if run.speedup == 1 else f"{seconds * 1e3:.4f} ms"


def _duration(seconds: float | None) -> str:
    return "–" if seconds is None else format_duration(seconds * 1e9)


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{fraction:.1%}"


def _integer(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")  # a thin space between thousands
