"""The processes of a play: so that none outlives one that was interrupted, and nobody else's is touched.

Ansible's workers leave their parent's session, so that no process group tells whose they are; descent does, as long
as the parents live. What has left the family on purpose (the agents of a lab that the play brought up) stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

CONNECTIONS = "cp"  # folder of Ansible's ssh connections in its home
_PROC = Path("/proc")
_POLL_S = 0.05
_PATIENCE_S = 5.0
_PARENT, _STARTED = 1, 19  # fields of /proc/PID/stat behind the name

Process = tuple[int, int]  # pid and when it started, since pids are used again


def descendants(ancestor: int) -> list[Process]:
    """All processes that descend from one; none where there is no /proc."""
    children: dict[int, list[Process]] = {}
    for path in _PROC.glob("[0-9]*"):
        fields = _stat(int(path.name))
        if fields:
            children.setdefault(int(fields[_PARENT]), []).append((int(path.name), int(fields[_STARTED])))
    found: list[Process] = []
    parents = [ancestor]
    while parents:
        young = children.get(parents.pop(), [])
        found += young
        parents += [pid for pid, _ in young]
    return found


def end_descendants() -> None:
    """End all descendants of this process: as Ctrl-C does, then as `kill` does, then for good."""
    family = descendants(os.getpid())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        family = list(dict.fromkeys([*family, *descendants(os.getpid())]))
        for process in family:
            _signal(process, number)
        deadline = time.monotonic() + _PATIENCE_S
        while any(map(_alive, family)):
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        else:
            return


def close_connections(home: Path) -> None:
    """Close the ssh connections that Ansible leaves open for the next task."""
    for socket in (home / CONNECTIONS).glob("*"):
        command = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "-"]
        subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat behind the name, which may hold anything; none when it is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _alive(process: Process) -> bool:
    pid, started = process
    fields = _stat(pid)
    return bool(fields) and int(fields[_STARTED]) == started and fields[0] != "Z"


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        if _alive(process):
            os.kill(process[0], number)
    except (ProcessLookupError, PermissionError):
        return
