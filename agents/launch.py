"""Starts one process per host from one that has imported everything: fork, enter the namespace, open up, go.

All or none: each child prepares and reports through a pipe of its own; when all are ready they are let go together, and
when one fails, or the launcher dies, the others end. A child that waits for the word reads it from a pipe whose other
end only the launcher holds, so that the launcher's death is the end of that pipe.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar

from agents.rawio.libc import enter_network_namespace

_READY_WITHIN_S = 30.0
_END_WITHIN_S = 5.0
_GO = b"g"


class Startable(Protocol):
    """What the launcher needs to know of an agent."""

    @property
    def name(self) -> str: ...
    @property
    def netns(self) -> str: ...
    @property
    def log(self) -> str: ...


class Prepared(Protocol):
    """An agent that has opened everything."""

    def run(self) -> None: ...
    def close(self) -> None: ...


Agent = TypeVar("Agent", bound=Startable)


class LaunchError(Exception):
    """An agent did not start; nothing of the others is left. The text is one line."""


class _Child:
    """A forked child, as its parent sees it."""

    def __init__(self, name: str, pid: int, report_fd: int) -> None:
        self.name = name
        self.pid = pid
        self._report_fd = report_fd

    def wait_until_ready(self, deadline: float) -> None:
        """Raises LaunchError when it fails, ends or takes too long."""
        poll = select.poll()
        poll.register(self._report_fd, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise LaunchError(f"agent {self.name} was not ready within {_READY_WITHIN_S:.0f} s")
        report = os.read(self._report_fd, select.PIPE_BUF)
        if not report:
            raise LaunchError(f"agent {self.name} ended while it started")
        error = json.loads(report)["error"]
        if error is not None:
            raise LaunchError(f"agent {self.name}: {error}")

    def forget(self) -> None:
        """Close our end of its pipe."""
        os.close(self._report_fd)

    def end(self, deadline: float) -> None:
        """Wait until it has ended by itself, and kill it at the deadline."""
        while time.monotonic() < deadline:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def launch(agents: Sequence[Agent], prepare: Callable[[Agent], Prepared]) -> dict[str, int]:
    """The pids by name, when all of them run. Each child enters its namespace, calls `prepare` and then `run`."""
    gc.collect()
    gc.freeze()  # what is there now is never looked at again, so that the pages stay shared
    go_reader, go_writer = os.pipe()
    children: list[_Child] = []
    try:
        for agent in agents:
            children.append(_fork(agent, prepare, go_reader, go_writer))
        deadline = time.monotonic() + _READY_WITHIN_S
        for child in children:
            child.wait_until_ready(deadline)
        os.write(go_writer, _GO * len(children))
    except BaseException:
        os.close(go_writer)
        end = time.monotonic() + _END_WITHIN_S
        for child in children:
            child.end(end)
        raise
    else:
        os.close(go_writer)
    finally:
        os.close(go_reader)
        for child in children:
            child.forget()
    return {child.name: child.pid for child in children}


def _fork(agent: Agent, prepare: Callable[[Agent], Prepared], go_reader: int, go_writer: int) -> _Child:
    report_reader, report_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go_writer)
        os.close(report_reader)
        _child(agent, prepare, report_writer, go_reader)
    os.close(report_writer)
    return _Child(agent.name, pid, report_reader)


def _child(agent: Agent, prepare: Callable[[Agent], Prepared], report_fd: int, go_fd: int) -> NoReturn:
    status = 1
    try:
        try:
            _detach(agent.log)
        except OSError as error:
            _report(report_fd, str(error))
        else:
            status = _live(agent, prepare, report_fd, go_fd)
    finally:
        os._exit(status)  # never back into what the launcher was doing


def _live(agent: Agent, prepare: Callable[[Agent], Prepared], report_fd: int, go_fd: int) -> int:
    """All of a child's life; its exit status."""
    try:
        enter_network_namespace(agent.netns)
        prepared = prepare(agent)
    except Exception as error:
        traceback.print_exc()
        _report(report_fd, f"{type(error).__name__}: {error}")
        return 1
    _report(report_fd, None)
    try:
        if os.read(go_fd, 1) != _GO:
            return 1
        os.close(go_fd)
        gc.freeze()
        prepared.run()
        return 0
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        prepared.close()


def _report(fd: int, error: str | None) -> None:
    line = " ".join(error.split())[:1000] if error is not None else None
    with suppress(BrokenPipeError):
        os.write(fd, json.dumps({"error": line}).encode())
    os.close(fd)


def _detach(log_path: str) -> None:
    os.setsid()
    os.chdir("/")
    Path(log_path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd, standard in ((nothing, 0), (nothing, 1), (log, 2)):
        os.dup2(fd, standard)
    os.close(log)
    os.close(nothing)
