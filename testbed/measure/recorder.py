"""Takes in what a run sees while it sees it: into the `Run`, and at once into `samples.jsonl` and `events.jsonl`.

Both files have one JSON object per line. `t_s` counts from the start of the traffic, `t_ns` is CLOCK_MONOTONIC.
A line is written when it is known, so that a run which is cut short leaves what there is.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TextIO

from testbed.measure.ports import Counts, PortCount
from testbed.measure.record import (
    CarrierChanged,
    EvChanged,
    EvCount,
    FaultActed,
    PacketLost,
    PlaneDecided,
    PortChanged,
    QpFailed,
    Received,
    Run,
    RunEvent,
)

SAMPLES_FILE = "samples.jsonl"
EVENTS_FILE = "events.jsonl"

_EVENT_NAMES: dict[type[RunEvent], str] = {
    PacketLost: "packet-lost",
    EvChanged: "ev-changed",
    CarrierChanged: "carrier-changed",
    PlaneDecided: "plane-decided",
    PortChanged: "plane-changed",
    QpFailed: "qp-failed",
    FaultActed: "fault",
}


class Sink(Protocol):
    """Takes what is seen: the recorder of a run, or a view of what goes on."""

    def received(self, flow: str, sample: Received) -> None:
        """A receiver's sample of a flow."""

    def ev_count(self, flow: str, sample: EvCount) -> None:
        """A sender's sample of a flow."""

    def event(self, event: RunEvent) -> None:
        """Something that happened."""


class Recorder:
    """Fills `run` and the two files in `out_dir`, which has to exist. A context manager."""

    def __init__(self, run: Run, out_dir: Path) -> None:
        self.run = run
        self._samples: TextIO = (out_dir / SAMPLES_FILE).open("w")
        self._events: TextIO = (out_dir / EVENTS_FILE).open("w")

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def received(self, flow: str, sample: Received) -> None:
        """A receiver's sample of a flow."""
        self.run.received.setdefault(flow, []).append(sample)
        self._write(self._samples, sample.t_ns, flow=flow, bytes_by_plane=sample.bytes_by_plane)

    def ev_count(self, flow: str, sample: EvCount) -> None:
        """A sender's sample of a flow."""
        self.run.ev_counts.setdefault(flow, []).append(sample)
        self._write(self._samples, sample.t_ns, flow=flow, evs=sample.states)

    def ports(self, t_ns: int, counts: Counts) -> None:
        """What the fabric's ports counted since the sample before; those that nothing happened to are left out."""
        for name, count in counts.items():
            self.run.ports[name] = self.run.ports.get(name, PortCount()).and_then(count)
        self.run.port_bytes.append((t_ns, {name: count.bytes for name, count in counts.items()}))
        self._write(self._samples, t_ns, ports={name: count.told() for name, count in counts.items()})

    def event(self, event: RunEvent) -> None:
        """Something that happened."""
        self.run.events.append(event)
        fields = asdict(event)
        self._write(self._events, fields.pop("t_ns"), event=_EVENT_NAMES[type(event)], **fields)

    def flush(self) -> None:
        """Hand what was written so far to the kernel, for a reader that follows the files."""
        self._samples.flush()
        self._events.flush()

    def close(self) -> None:
        """Close the files."""
        self._samples.close()
        self._events.close()

    def _write(self, file: TextIO, t_ns: int, **fields: Any) -> None:
        row = {"t_s": round(self.run.seconds(t_ns), 9), "t_ns": t_ns, **fields}
        file.write(json.dumps(row, separators=(",", ":")) + "\n")
