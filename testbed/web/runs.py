"""Runs started from the page: the verb `run` as a process of its own, one at a time, and stopped like with Ctrl-C.

A run wants a main thread for its signals, and its lab for itself; as a process it has both, and what a page starts is
the same as what a person starts in a terminal. Plain traffic is a scenario without faults.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.measure.view import Message
from testbed.topology import library
from testbed.topology.errors import InputError
from testbed.topology.labspec import LabSpec
from testbed.topology.units import format_size

TRAFFIC_DURATION = "10 min"
_END_WITHIN_S = 20.0
_PACKET_BYTES = 4096
_MOST_PACKETS = 8  # of a message
_MESSAGES_PER_S = 20

Tell = Callable[[Message], None]


def traffic_scenario(spec: LabSpec, load_percent: int) -> dict[str, Any]:
    """Traffic between all hosts of a lab without faults. Raises InputError for a load outside 1..100.

    Messages are small where links are slow: so many in a second that the goodput of a tick is no accident.
    """
    if not 1 <= load_percent <= 100:
        raise InputError(f"a load of {load_percent} %", "from 1 to 100")
    ring = [[f"h{host}", f"h{(host + 1) % spec.hosts}"] for host in range(spec.hosts)]
    pairs = "across" if spec.t0_groups > 1 else ring
    offered_bytes = spec.rates.host * spec.planes * load_percent // 800  # a second, of one host
    message = min(_MOST_PACKETS, max(1, offered_bytes // _MESSAGES_PER_S // _PACKET_BYTES)) * _PACKET_BYTES
    workload = {"kind": "write_bw", "pairs": pairs, "load": f"{load_percent}%", "message": format_size(message)}
    return {
        "duration": TRAFFIC_DURATION,
        "workloads": [workload],
        "expect": {"bytes_wrong": 0, "undelivered_messages": 0, "qp_errors": 0},
    }


class Runs:
    """The one run that the page has started, if there is one. For the server's event loop.

    `tell` gets a message `run` whenever one begins or ends: `name` ("" when none is going on), `verdict` and `text` of
    the last one. `report` is the last run's.
    """

    def __init__(self, tell: Tell, out: Path) -> None:
        self._tell = tell
        self._out = out
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self.report: Path | None = None

    async def start(self, scenario: str, lab: str) -> None:
        """Run a scenario of the shelf on a lab (file or name). Raises InputError when there is no such scenario."""
        if scenario not in library.names("scenarios"):
            raise InputError(f"there is no scenario {scenario!r}")
        await self._start(scenario, str(library.find("scenarios", scenario)), lab)

    async def start_traffic(self, spec: LabSpec, load_percent: int, lab: str) -> None:
        """Send between all hosts of a lab, until it is stopped. Raises InputError for a load that cannot be.

        The scenario stays beside the results, to be run again.
        """
        path = self._out / "traffic.yaml"
        content = traffic_scenario(spec, load_percent)
        self._out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))  # JSON is YAML
        await self._start("traffic", str(path), lab)

    def stop(self) -> None:
        """Let the run end early. Raises InputError when none is going on."""
        if self._process is None:
            raise InputError("no run that was started here is going on")
        self._process.send_signal(signal.SIGINT)

    async def close(self) -> None:
        """End the run, and wait for that."""
        if self._process is not None and self._watching is not None:
            self.stop()
            await asyncio.wait([self._watching], timeout=_END_WITHIN_S)

    async def _start(self, name: str, scenario: str, lab: str) -> None:
        if self._process is not None:
            raise InputError("a run is going on already", "stop it first")
        out = self._out / name
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "testbed.cli", "run", scenario, "--lab", lab, "--out", str(out), "--json"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        self._told(name, "", f"{name} is running")
        self._watching = asyncio.create_task(self._watch(self._process, name, out))

    async def _watch(self, process: asyncio.subprocess.Process, name: str, out: Path) -> None:
        assert process.stdout is not None and process.stderr is not None
        result, words = await asyncio.gather(process.stdout.read(), process.stderr.read())
        await process.wait()
        self._process = None
        try:
            summary = json.loads(result)
        except ValueError:
            lines = words.decode(errors="replace").strip().splitlines() or ["it ended without a word"]
            self._told("", "refused", f"{name}: {lines[-1]}")
            return
        self.report = out / "report.html"
        reasons = "; ".join(summary["reasons"])
        text = f"{name}: {summary['verdict'].upper()}" + (f" ({reasons})" if reasons else "")
        self._told("", summary["verdict"], text)

    def _told(self, name: str, verdict: str, text: str) -> None:
        report = bool(self.report and self.report.is_file())
        self._tell({"type": "run", "name": name, "verdict": verdict, "text": text, "report": report})
