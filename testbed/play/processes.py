"""The processes of a play, by the mark in their environment: so that none outlives it, and nobody else's is touched.

Ansible's workers leave their parent's session, and its ssh connections stay for a minute, so that neither a process
group nor a parent tells whose they are. A play's own ANSIBLE_HOME, which they all inherit, does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

MARK = "ANSIBLE_HOME"
CONNECTIONS = "cp"  # folder in it
_PROC = Path("/proc")
_POLL_S = 0.05
_PATIENCE_S = 5.0


def marked(home: Path) -> list[int]:
    """Processes that work for the play whose ANSIBLE_HOME this is; none where there is no /proc."""
    mark = f"{MARK}={home}".encode()
    found = []
    for path in _PROC.glob("[0-9]*/environ"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # gone, or another user's
            continue
        pid = int(path.parent.name)
        if mark in words and pid != os.getpid():
            found.append(pid)
    return found


def end(home: Path) -> None:
    """End all of them: as Ctrl-C does, then as `kill` does, then for good."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for pid in marked(home):
            _signal(pid, number)
        deadline = time.monotonic() + _PATIENCE_S
        while marked(home):
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


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
