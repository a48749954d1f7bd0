"""The guided demonstration: what is built, traffic on all planes, a link cut while it runs, the reroute, the verdict.

`Narrator` turns a run that is going on into lines for an audience; it only listens, so the story can never differ from
what the run records. The run itself is the scenario `demo` like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from testbed.measure import series, story
from testbed.measure.record import Run, RunEvent
from testbed.topology.clos import Clos
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
        lines = [(line.t_ns, line.text) for line in story.tell(run, events)]
        if now_ns >= self._next_line_ns:
            self._next_line_ns = now_ns + LINE_EVERY_NS
            lines = sorted([*lines, *_goodput(run)], key=lambda line: line[0])
        for t_ns, text in lines:
            self._tell(f"{run.seconds(t_ns):7.3f} s  {text}")


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
