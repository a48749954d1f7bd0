"""The agents: `python -m agents.daemon` takes one JSON object on stdin and leaves one process per host running.

    {"lab": "demo", "nic": {NicConfig's fields but host}, "seed": 1,
     "agents": [{"name": "h0", "host": 0, "netns": "/run/netns/demo.h0", "socket": "/run/...", "log": "/run/...",
                 "ports": [{"ifname": "eth0", "mac": "02:...", "gateway_mac": "02:...", "rate_bps": 20000000},
                           ...]}, ...]}

It prints `{"pids": {"h0": 123, ...}}` when all of them run, and exits 0; or it says in one line why not, and exits 1
with none running. An agent is put together here: sockets and loop from `rawio`, the NIC, what lives on it, and
the operations of its control socket.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TextIO

from agents.agent import Agent
from agents.launch import LaunchError, launch
from agents.nic import Nic
from agents.nic_config import NicConfig
from agents.operations import perform
from agents.rawio.control import ControlServer
from agents.rawio.loop import Loop, now_ns
from agents.rawio.port import Port, PortSpec
from agents.workloads import pattern

# Turns of the event loop are at least so far apart, in the real fabric's time: less than what a 4 KB packet takes on a
# link of 100 Gb/s. A turn has a price whatever it does, and a lab has many agents on few cores.
_MODERATION_NS = 200
_LONGEST_MODERATION_NS = 1_000_000

# An agent stands for a piece of hardware: it goes before the programs that watch it.
_NICENESS = -10

# Few of the protocol's objects form cycles: look for them rarely, since a look at all objects is a pause.
_GC_THRESHOLDS = (50_000, 20, 50)


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent of the launcher's input."""

    name: str
    netns: str
    socket: str
    log: str
    ports: tuple[PortSpec, ...]
    nic: NicConfig
    seed: str


class SpecError(ValueError):
    """The launcher's input is not as this file's docstring says."""


def parse_spec(spec: Any) -> list[AgentSpec]:
    """The agents of a decoded launch spec. Raises SpecError."""
    try:
        common, seed = spec["nic"], spec.get("seed", spec["lab"])
        return [
            AgentSpec(
                name=one["name"],
                netns=one["netns"],
                socket=one["socket"],
                log=one["log"],
                ports=tuple(PortSpec(**port) for port in one["ports"]),
                nic=NicConfig(host=one["host"], **common),
                seed=f"{seed} {one['name']}",
            )
            for one in spec["agents"]
        ]
    except KeyError as error:
        raise SpecError(f"launch spec: {error} is missing") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise SpecError(f"launch spec: {error}") from error


@dataclass(frozen=True, slots=True)
class ProcessHost:
    """This process, as the operations of the control socket see it (`agents.operations.Host`)."""

    name: str
    agent: Agent
    ports: list[Port]
    loop: Loop

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return now_ns()

    def identity(self) -> dict[str, Any]:
        """See operations.Host."""
        ports = zip(self.ports, self.loop.carrier.up, strict=True)
        return {"pid": os.getpid(), "ports": [{"ifname": port.spec.ifname, "up": up} for port, up in ports]}

    def totals(self) -> dict[str, Any]:
        """See operations.Host."""
        loop = self.loop.counters
        return {
            "cpu_ns": time.process_time_ns(),
            "turns": loop.turns,
            "late_timers": loop.late_timers,
            "worst_late_ns": loop.worst_late_ns,
            "socket_drops": sum(port.read_drops() for port in self.ports),
            "ports": [
                {
                    "up": up,
                    "packets_received": port.counters.packets_received,
                    "packets_sent": port.counters.packets_sent,
                    "bytes_sent": port.counters.bytes_sent,
                    "control_refused": port.counters.control_refused,
                    "send_errors": dict(port.counters.send_errors),
                }
                for port, up in zip(self.ports, self.loop.carrier.up, strict=True)
            ],
        }

    def stop(self) -> None:
        """See operations.Host."""
        self.loop.stop()


class Daemon:
    """One agent, wired up in the network namespace that the process is in; `run` ends by a shutdown or SIGTERM."""

    def __init__(self, spec: AgentSpec) -> None:
        """Opens everything; raises OSError when an interface, or the place for the socket, is not there."""
        logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        Path(spec.socket).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._ports = [Port(port, udp_port=spec.nic.udp_port) for port in spec.ports]
        nic = Nic(spec.nic, Random(spec.seed))
        agent = Agent(nic, now_ns())
        moderation_ns = min(round(_MODERATION_NS * spec.nic.time_dilation), _LONGEST_MODERATION_NS)
        self._loop = Loop(nic, self._ports, agent, moderation_ns)
        self._host = ProcessHost(spec.name, agent, self._ports, self._loop)
        self._control = ControlServer(spec.socket, lambda request, reply: perform(self._host, request, reply))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._loop.stop())
        gc.set_threshold(*_GC_THRESHOLDS)
        with suppress(PermissionError):  # in a container that withholds it, agents are only late more often
            os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)

    def run(self) -> None:
        """Serve until told to stop."""
        self._control.start(self._loop)
        self._loop.run()

    def close(self) -> None:
        """Give back all sockets, and the control socket's file."""
        self._control.close()
        self._loop.close()
        for port in self._ports:
            port.close()


def main(source: TextIO = sys.stdin, output: TextIO = sys.stdout, errors: TextIO = sys.stderr) -> int:
    """The launcher; returns its exit status."""
    try:
        specs = parse_spec(json.load(source))
        pattern.block()  # once, for all
        pids = launch(specs, Daemon)
    except (SpecError, LaunchError, json.JSONDecodeError) as error:
        errors.write(f"{error}\n")
        return 1
    output.write(json.dumps({"pids": pids}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
