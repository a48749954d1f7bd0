"""The lab's side of the agents: starts one per host, ends them, and talks to them over their unix sockets.

What can be asked, and with which fields, is the table in `agents.operations`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed.fabric import netns
from testbed.fabric.plan import namespace_name
from testbed.lab import processes
from testbed.topology.clos import Clos
from testbed.topology.errors import InvalidRunError, MrclabError
from testbed.topology.healthspec import agent_settings
from testbed.topology.labspec import LabSpec

_PROJECT = Path(__file__).resolve().parents[2]
_START_WITHIN_S = 60.0
_READ_BYTES = 256 << 10
DEFAULT_TIMEOUT_S = 5.0


class AgentError(InvalidRunError):
    """An agent is not there, or does not answer: the lab is damaged."""


class AgentRefusedError(MrclabError):
    """An agent cannot do what it was asked for; the text is its own."""


def socket_path(run_dir: Path, host: str) -> Path:
    """Where the agent of a host listens."""
    return run_dir / "agents" / f"{host}.sock"


def log_path(run_dir: Path, host: str) -> Path:
    """Where the agent of a host writes what goes wrong."""
    return run_dir / "agents" / f"{host}.log"


def launch_spec(clos: Clos, run_dir: Path, hosts: Iterable[str] | None = None) -> dict[str, Any]:
    """What `python -m agents.daemon` takes on stdin to start the agents of all hosts of a lab, or of some."""
    spec = clos.spec
    wanted = clos.hosts if hosts is None else [clos.nodes[host] for host in hosts]
    return {
        "lab": spec.name,
        "nic": {
            "planes": spec.planes,
            "t0_groups": spec.t0_groups,
            "hosts_per_t0": spec.hosts_per_t0,
            "t1s_per_plane": spec.t1s_per_plane,
            "time_dilation": spec.time_dilation,
            "real_rate_bps": spec.stands_for.host,
            "trimming": spec.queue.trimming,
            "source_routed": spec.source_routed,
        },
        "agents": [
            {
                "name": host.name,
                "host": host.index,
                "netns": str(netns.path_of(namespace_name(spec.name, host.name))),
                "socket": str(socket_path(run_dir, host.name)),
                "log": str(log_path(run_dir, host.name)),
                "ports": [
                    {
                        "ifname": port.name,
                        "mac": port.mac,
                        "gateway_mac": clos.peer(port, link).mac,
                        "rate_bps": link.rate_bps,
                    }
                    for port, link in clos.ports(host.name)
                ],
            }
            for host in wanted
        ],
    }


class Launcher:
    """The process that agents are forked from. It loads what they need while the lab is still being made."""

    def __init__(self, lab: str) -> None:
        """It waits for `start`, and ends by itself when this process does."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agents.daemon"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=_PROJECT,
            env={**os.environ, processes.LAB_VARIABLE: lab},
        )

    def start(self, clos: Clos, run_dir: Path, hosts: Iterable[str] | None = None) -> dict[str, int]:
        """Start the agents of all hosts (or of some) in their namespaces, once; their pids by host.

        All run, or AgentError and none does.
        """
        try:
            output, errors = self._process.communicate(json.dumps(launch_spec(clos, run_dir, hosts)), _START_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise AgentError(f"the agents did not start within {_START_WITHIN_S:.0f} s") from None
        if self._process.returncode != 0:
            lines = errors.strip().splitlines() or ["no reason given"]
            raise AgentError(f"the agents did not start: {lines[-1]}")
        pids: dict[str, int] = json.loads(output)["pids"]
        return pids

    def close(self) -> None:
        """End the launcher, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def __enter__(self) -> Launcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def dead(lab: str, pids: Mapping[str, int]) -> list[str]:
    """The hosts of which the agent on file is no process in their namespace any more."""
    return [host for host, pid in pids.items() if not processes.lives_in(pid, namespace_name(lab, host))]


def begin_probing(group: AgentGroup, spec: LabSpec) -> None:
    """Let agents that were just started probe the fabric, where the lab file says so."""
    if spec.health.policy != "off":
        group.call("health-set", **agent_settings(spec, spec.health, os.cpu_count() or 1))


def stop(run_dir: Path, hosts: Iterable[str], within_s: float = 3.0) -> None:
    """Let the agents of these hosts end; those that do not within `within_s` are killed. Not running is no error.

    A process is recognised as the agent by the kernel's word on who listens on its socket, never by a pid on file.
    """
    ending: list[int] = []  # pidfds
    try:
        for host in hosts:
            client = AgentClient(socket_path(run_dir, host), within_s)
            with suppress(OSError, AgentError), client:
                ending.append(client.open_pidfd())
                client.send("shutdown")
        _wait_or_kill(ending, time.monotonic() + within_s)
    finally:
        for pidfd in ending:
            os.close(pidfd)


def _wait_or_kill(pidfds: list[int], deadline: float) -> None:
    for pidfd in pidfds:
        if not _ended(pidfd, deadline - time.monotonic()):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            _ended(pidfd, 1.0)


def _ended(pidfd: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1000))


class AgentClient:
    """A connection to one agent, made at the first call and again after an error. Raises AgentError when it is dead."""

    def __init__(self, path: str | Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.path = Path(path)
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._input = bytearray()

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def call(self, op: str, *, within_s: float | None = None, **fields: Any) -> dict[str, Any]:
        """Ask and wait for the answer. Raises AgentRefusedError when the agent says no."""
        self.send(op, **fields)
        return self.receive(self._timeout_s if within_s is None else within_s)

    def send(self, op: str, **fields: Any) -> None:
        """Ask; `receive` gets the answer. When the agent was started anew since the last time, the new one is asked."""
        request = json.dumps({"op": op, **fields}).encode() + b"\n"
        if self._socket is not None:
            try:
                self._socket.sendall(request)
                return
            except OSError:
                self.close()
        try:
            self._connected().sendall(request)
        except OSError as error:
            self.close()
            raise AgentError(f"agent {self.path.stem} does not take {op}: {error}") from error

    def receive(self, within_s: float) -> dict[str, Any]:
        """The answer to the last `send`. Raises AgentRefusedError when the agent says no."""
        answer = json.loads(self._line(time.monotonic() + within_s, within_s))
        if not answer.pop("ok"):
            raise AgentRefusedError(f"agent {self.path.stem}: {answer['error']}")
        assert isinstance(answer, dict)
        return answer

    def open_pidfd(self) -> int:
        """A pidfd of the process that listens. Raises OSError when that has ended."""
        credentials = self._connected().getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, _uid, _gid = struct.unpack("=iII", credentials)
        return os.pidfd_open(pid)

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._input.clear()

    def _connected(self) -> socket.socket:
        if self._socket is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(self._timeout_s)
            try:
                connection.connect(str(self.path))
            except OSError as error:
                connection.close()
                raise AgentError(f"agent {self.path.stem} is not running ({error.strerror or error})") from error
            self._socket = connection
        return self._socket

    def _line(self, deadline: float, within_s: float) -> bytes:
        connection = self._connected()
        while True:
            line, newline, rest = self._input.partition(b"\n")
            if newline:
                self._input = rest
                return bytes(line)
            try:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                data = connection.recv(_READ_BYTES)
            except TimeoutError:
                self.close()
                raise AgentError(f"agent {self.path.stem} did not answer within {within_s:g} s") from None
            except OSError as error:
                self.close()
                raise AgentError(f"agent {self.path.stem} has gone: {error}") from error
            if not data:
                self.close()
                raise AgentError(f"agent {self.path.stem} has ended; its log is {self.path.with_suffix('.log')}")
            self._input += data


class AgentGroup:
    """The agents of many hosts, asked side by side: all requests go out before the first answer is awaited."""

    def __init__(self, clients: Mapping[str, AgentClient]) -> None:
        self._clients = dict(clients)

    @classmethod
    def of(cls, run_dir: Path, hosts: Iterable[str], timeout_s: float = DEFAULT_TIMEOUT_S) -> AgentGroup:
        """The agents of these hosts of a lab."""
        return cls({host: AgentClient(socket_path(run_dir, host), timeout_s) for host in hosts})

    def __getitem__(self, host: str) -> AgentClient:
        return self._clients[host]

    def __enter__(self) -> AgentGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def hosts(self) -> list[str]:
        """The names of the hosts."""
        return list(self._clients)

    def call(self, op: str, *, within_s: float = DEFAULT_TIMEOUT_S, **fields: Any) -> dict[str, dict[str, Any]]:
        """Ask all agents the same; the answers by host."""
        return self.call_each(op, dict.fromkeys(self._clients, fields), within_s=within_s)

    def call_each(
        self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]], *, within_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, dict[str, Any]]:
        """Ask the hosts named each with fields of its own; the answers by host.

        When some fail, the error of the first of them is raised, after the answers of the others have been read.
        """
        answers, failures = self.ask_each(op, fields_by_host, within_s=within_s)
        for failure in failures.values():
            raise failure
        return answers

    def ask_each(
        self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]], *, within_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[dict[str, dict[str, Any]], dict[str, MrclabError]]:
        """The same for those who can do without some of the answers: (answers, failures) by host."""
        deadline = time.monotonic() + within_s
        answers: dict[str, dict[str, Any]] = {}
        failures: dict[str, MrclabError] = {}
        for host, fields in fields_by_host.items():
            try:
                self._clients[host].send(op, **fields)
            except AgentError as error:
                failures[host] = error
        for host in fields_by_host:
            if host in failures:
                continue
            try:
                answers[host] = self._clients[host].receive(max(0.0, deadline - time.monotonic()))
            except (AgentError, AgentRefusedError) as error:
                failures[host] = error
        return answers, failures

    def close(self) -> None:
        """End all connections."""
        for client in self._clients.values():
            client.close()
