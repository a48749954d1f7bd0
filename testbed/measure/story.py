"""What happens in a run, told to people: many events of one cause become one line.

For whoever follows a run or a lab while it goes on (the demonstration, the live page, the terminal): each takes the
events that are new and gets lines in order of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from agents.wire import ev as entropy
from testbed.fabric.plan import kernel_path_ev
from testbed.measure.record import (
    GOOD_STATES,
    EvChanged,
    FaultActed,
    PacketLost,
    PlaneDecided,
    PortChanged,
    QpFailed,
    Run,
    RunEvent,
    at_end,
)
from testbed.topology.clos import Clos, t1_name

_CUTS = frozenset({"link-down", "link-flap"})  # kinds that switch one link off
Topic = Literal["fault", "loss", "path", "plane", "failure"]


class Line(NamedTuple):
    """What to tell, of when (CLOCK_MONOTONIC ns), and what it is about."""

    t_ns: int
    text: str
    topic: Topic


def tell(run: Run, events: Sequence[RunEvent]) -> list[Line]:
    """The lines for some events of a run that happened at about the same time."""
    return sorted(
        [
            *(line for event in events if isinstance(event, FaultActed) for line in _fault(run, event)),
            *_losses([event for event in events if isinstance(event, PacketLost)]),
            *_evs([event for event in events if isinstance(event, EvChanged)]),
            *_ports([event for event in events if isinstance(event, PortChanged)]),
            *(Line(event.t_ns, event.words, "plane") for event in events if isinstance(event, PlaneDecided)),
            *(
                Line(event.t_ns, f"{event.flow}: its queue pair failed: {event.why}", "failure")
                for event in events
                if isinstance(event, QpFailed)
            ),
        ],
        key=lambda line: line.t_ns,  # lines of one moment stay as they are: a cut, then what it stops
    )


def _fault(run: Run, event: FaultActed) -> Iterator[Line]:
    cut = event.target in run.clos.links and event.kind in _CUTS
    if not event.active:
        words = f"LINK BACK  {event.target}" if cut else f"OVER       {event.kind} {event.target}"
        yield Line(event.t_ns, words, "fault")
        return
    if not cut:
        yield Line(event.t_ns, f"FAULT      {event.kind} {event.target}{at_end(event.end)}", "fault")
        return
    yield Line(event.t_ns, f"LINK CUT   {event.target}, switched off{at_end(event.end)}", "fault")
    stalled = _kernel_paths_over(run.clos, event.target)
    if stalled:
        yield Line(
            event.t_ns,
            f"           (ordinary tools between {', '.join(stalled)} use this link: they stall until it is back)",
            "fault",
        )


def _losses(losses: list[PacketLost]) -> Iterator[Line]:
    if losses:
        flows = {loss.flow for loss in losses}
        last_ns = max(loss.t_ns for loss in losses)
        lost = f"{_counted(len(losses), 'packet')} lost by {_counted(len(flows), 'flow')}"
        yield Line(last_ns, f"{lost}, sent again over other paths", "loss")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _evs(changes: list[EvChanged]) -> Iterator[Line]:
    for in_use, word in ((False, "retired"), (True, "back in use")):
        some = [one for one in changes if (one.new in GOOD_STATES) is in_use and (one.old in GOOD_STATES) is not in_use]
        for path, of_path in _by_path(some).items():
            flows = sorted({change.flow for change in of_path})
            span_ms = (of_path[-1].t_ns - of_path[0].t_ns) / 1e6
            within = f", all within {span_ms:.0f} ms" if len(flows) > 1 else ""
            yield Line(of_path[-1].t_ns, f"path over {path} {word} by {', '.join(flows)}{within}", "path")


def _ports(changes: list[PortChanged]) -> Iterator[Line]:
    told = set()
    for change in changes:
        key = (change.host, change.plane, change.up, change.end)
        if key not in told:
            told.add(key)
            word = "is back on" if change.up else "leaves"
            why = "its peer said so" if change.end == "peer" else "its own port"
            yield Line(change.t_ns, f"{change.host} {word} plane {change.plane} ({why})", "plane")


def _by_path(changes: Iterable[EvChanged]) -> dict[str, list[EvChanged]]:
    """Changes by the T1 that the EV leads over, each list in order of time."""
    found: dict[str, list[EvChanged]] = {}
    for change in sorted(changes, key=lambda change: change.t_ns):
        path = t1_name(entropy.plane_of(change.ev), entropy.uplink_of(change.ev))
        found.setdefault(path, []).append(change)
    return found


def _kernel_paths_over(clos: Clos, link: str) -> list[str]:
    """The pairs of hosts whose ordinary traffic crosses a link."""
    pairs = []
    for src in clos.hosts:
        for dst in clos.hosts[src.index + 1 :]:
            if link in clos.path_links(src.index, dst.index, *kernel_path_ev(clos, src.index, dst.index)):
                pairs.append(f"{src.name} and {dst.name}")
    return pairs
