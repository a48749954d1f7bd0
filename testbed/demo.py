"""The guided demonstration: what is built, traffic on all planes, a link cut while it runs, the reroute, the verdict.

`Narrator` turns a run that is going on into lines for an audience; it only listens, so the story can never differ from
what the run records. The run itself is the scenario `demo` like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from agents.wire import ev as entropy
from testbed.fabric.plan import kernel_path_ev
from testbed.measure import series
from testbed.measure.record import GOOD_STATES, EvChanged, FaultActed, PacketLost, PortChanged, Run, RunEvent
from testbed.topology.clos import Clos, t1_name
from testbed.topology.units import format_rate

LINE_EVERY_NS = 1_000_000_000
WINDOW_NS = 800_000_000  # over which the goodput of a line is averaged
_BAR_WIDTH = 12

Tell = Callable[[str], None]
Line = tuple[int, str]  # (when, CLOCK_MONOTONIC ns; what to tell)


def introduce(clos: Clos, tell: Tell) -> None:
    """Say what stands: hosts, planes, paths."""
    spec = clos.spec
    t0s, t1s = (sum(node.kind == kind for node in clos.switches) for kind in ("t0", "t1"))
    tell(f"{len(clos.hosts)} hosts, {t0s} T0 and {t1s} T1 switches in {spec.planes} planes: each a network namespace,")
    rate, paths = format_rate(spec.rates.host), spec.planes * spec.t1s_per_plane
    tell(f"joined by {len(clos.links)} veth links of {rate}, forwarding by SRv6 uN static routes.")
    tell(f"Between two racks there are {spec.planes} planes x {spec.t1s_per_plane} T1s = {paths} paths.")


class Narrator:
    """Listens to a run (`live` is the runner's callback) and tells what happens, as it happens."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._next_line_ns = 0

    def live(self, run: Run, now_ns: int, events: list[RunEvent]) -> None:
        """Tell the new events, and once a second how much arrives on each plane."""
        lines = [
            *(line for event in events if isinstance(event, FaultActed) for line in _fault(run, event)),
            *_losses([event for event in events if isinstance(event, PacketLost)]),
            *_evs([event for event in events if isinstance(event, EvChanged)]),
            *_ports([event for event in events if isinstance(event, PortChanged)]),
        ]
        if now_ns >= self._next_line_ns:
            self._next_line_ns = now_ns + LINE_EVERY_NS
            lines += _goodput(run)
        for t_ns, text in sorted(lines):
            self._tell(f"{run.seconds(t_ns):7.3f} s  {text}")


def _fault(run: Run, event: FaultActed) -> Iterator[Line]:
    if not event.active:
        yield event.t_ns, f"LINK BACK  {event.target}"
        return
    ends = "both ends" if event.end == "both" else f"its {event.end} end"
    yield event.t_ns, f"LINK CUT   {event.target}, switched off at {ends}"
    stalled = _kernel_paths_over(run.clos, event.target)
    if stalled:
        yield (
            event.t_ns,
            f"           (ordinary tools between {', '.join(stalled)} use this link: they stall until it is back)",
        )


def _losses(losses: list[PacketLost]) -> Iterator[Line]:
    if losses:
        flows = {loss.flow for loss in losses}
        last_ns = max(loss.t_ns for loss in losses)
        yield last_ns, f"{len(losses)} packets lost by {len(flows)} flows, sent again over other paths"


def _evs(changes: list[EvChanged]) -> Iterator[Line]:
    for in_use, word in ((False, "retired"), (True, "back in use")):
        some = [one for one in changes if (one.new in GOOD_STATES) is in_use and (one.old in GOOD_STATES) is not in_use]
        for path, of_path in _by_path(some).items():
            flows = sorted({change.flow for change in of_path})
            span_ms = (of_path[-1].t_ns - of_path[0].t_ns) / 1e6
            within = f", all within {span_ms:.0f} ms" if len(flows) > 1 else ""
            yield of_path[-1].t_ns, f"path over {path} {word} by {', '.join(flows)}{within}"


def _ports(changes: list[PortChanged]) -> Iterator[Line]:
    told = set()
    for change in changes:
        key = (change.host, change.plane, change.up, change.end)
        if key not in told:
            told.add(key)
            word = "is back on" if change.up else "leaves"
            why = "its peer said so" if change.end == "peer" else "its own port"
            yield change.t_ns, f"{change.host} {word} plane {change.plane} ({why})"


def _goodput(run: Run) -> Iterator[Line]:
    """How much arrives on each plane, all flows together, of all hosts' line rate; of the last `WINDOW_NS`."""
    newest_ns = min((samples[-1].t_ns for samples in run.received.values() if samples), default=0)
    start_ns = max(run.start_ns, newest_ns - WINDOW_NS)
    if newest_ns > start_ns:
        planes = series.plane_bins(run, [flow.name for flow in run.flows], [start_ns, newest_ns])[0]
        line_bps = run.clos.spec.rates.host * len(run.clos.hosts)
        bars = "  ".join(f"plane {plane} {_bar(bps / line_bps)}" for plane, bps in enumerate(planes))
        yield newest_ns, f"{bars}  {format_rate(sum(planes))}"


def _bar(fraction: float) -> str:
    filled = min(_BAR_WIDTH, round(fraction * _BAR_WIDTH))
    return "#" * filled + "." * (_BAR_WIDTH - filled)


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
