"""A recorded run as the messages of the live page, so that the same page can play it again.

The run is fed through the view that the live page uses, in order of time. Loads of links come from the ports' samples,
which are fewer than the ticks: each holds until the next. A long run is played in larger steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from testbed.measure import faults
from testbed.measure.judgement import Judgement
from testbed.measure.record import EvCount, Fault, Received, Run, RunEvent
from testbed.measure.view import TICK_NS, Message, View, scene
from testbed.topology.errors import InputError

FILE_NAME = "recording.json"
MOST_TICKS = 900

Entry = tuple[int, str, Received | EvCount | RunEvent]


def record(run: Run, judgement: Judgement) -> dict[str, Any]:
    """`messages` in order of time (see `testbed.measure.view`)."""
    step_ns = max(run.of_lab(TICK_NS), -(-(run.stop_ns - run.start_ns) // MOST_TICKS))
    costs = {cost.fault.number: cost for cost in faults.costs(run)}
    view = View(run.clos, run.start_ns, lambda _, fault: costs[fault.number])
    view.set_flows(run.flows)
    entries = sorted(_entries(run), key=lambda entry: entry[0])
    messages: list[Message] = [scene(run.clos), {"type": "status", "state": "up", "text": f"run {run.scenario}"}]
    wrong = sum(totals.bytes_wrong for totals in run.totals.values())
    loads = _Loads(run)
    place = 0
    for now_ns in range(run.start_ns, run.stop_ns + step_ns, step_ns):
        while place < len(entries) and entries[place][0] <= now_ns:
            _feed(view, *entries[place][1:])
            place += 1
        known = [_as_of(fault, now_ns) for fault in run.faults if fault.since_ns <= now_ns]
        messages += [*view.faults(known, now_ns), *view.happened(), *view.judged(now_ns, wrong)]
        messages.append(view.tick(now_ns, loads.at(now_ns), down=_carrying_nothing(run, known)))
    verdict = f"{judgement.verdict.upper()} {'; '.join(judgement.reasons)}".strip()
    messages.append(view.told(run.stop_ns, "verdict", f"{run.scenario}: {verdict}"))
    return {"messages": messages}


def load(run_dir: Path) -> dict[str, Any]:
    """The recording in a run's folder. Raises InputError when there is none."""
    path = run_dir / FILE_NAME
    try:
        recording = json.loads(path.read_text())
    except (OSError, ValueError):
        raise InputError(f"{run_dir} has no recording", "give the folder of a run, like runs/demo") from None
    assert isinstance(recording, dict)
    return recording


def _entries(run: Run) -> Iterator[Entry]:
    for flow, samples in run.received.items():
        yield from ((sample.t_ns, flow, sample) for sample in samples)
    for flow, counts in run.ev_counts.items():
        yield from ((count.t_ns, flow, count) for count in counts)
    yield from ((event.t_ns, "", event) for event in run.events)


def _feed(view: View, flow: str, entry: Received | EvCount | RunEvent) -> None:
    match entry:
        case Received():
            view.received(flow, entry)
        case EvCount():
            view.ev_count(flow, entry)
        case RunEvent():
            view.event(entry)


class _Loads:
    """Of each link in percent of its rate, both ways in turn, as the ports' samples have it; asked in order of time."""

    def __init__(self, run: Run) -> None:
        self._samples = run.port_bytes
        self._ports = [
            (f"{port.node}>{run.clos.peer(port, link).node}", link.rate_bps)
            for link in run.clos.links.values()
            for port in link.ends()
        ]
        self._next = 0
        self._now: list[int] | None = None

    def at(self, now_ns: int) -> list[int] | None:
        """None before the second sample, and in runs whose ports did not count."""
        while self._next < len(self._samples) and self._samples[self._next][0] <= now_ns:
            if self._next > 0:
                passed_s = (self._samples[self._next][0] - self._samples[self._next - 1][0]) / 1e9
                sent = self._samples[self._next][1]
                self._now = [round(800 * sent.get(name, 0) / passed_s / rate_bps) for name, rate_bps in self._ports]
            self._next += 1
        return self._now


def _carrying_nothing(run: Run, faults_so_far: list[Fault]) -> list[str]:
    """The links that faults in force leave nothing of."""
    left = [one for fault in faults_so_far if fault.until_ns is None for one in fault.damage]
    return sorted({name for name, fraction in left if fraction == 0 and name in run.clos.links})


def _as_of(fault: Fault, now_ns: int) -> Fault:
    """A fault as it was known at a time."""
    over = fault.until_ns is not None and fault.until_ns <= now_ns
    return fault if over else replace(fault, up_ns=None, until_ns=None)
