"""The processes of a lab: those in its namespaces, and those that were started for it; ended by pid.

The second kind is known by a variable in its environment. It matters when a command was killed while it started agents:
their launcher lives on for a moment, in no namespace of the lab yet.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from testbed.fabric import netns
from testbed.topology.errors import MrclabError

LAB_VARIABLE = "MRCLAB_STARTED_FOR"  # in the environment of what is started for a lab: the lab's name
_POLL_S = 0.01


def inodes_of(names: Iterable[str]) -> set[int]:
    """What the kernel knows these namespaces by, also after their names are gone. A missing one has none."""
    return {found for name in names if (found := netns.inode(name)) is not None}


def of_lab(lab: str, inodes: set[int]) -> list[int]:
    """Pids of all processes of which a thread is in one of these namespaces, or which were started for the lab.

    Never this process.
    """
    mark = f"{LAB_VARIABLE}={lab}".encode()
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return sorted(pid for pid in pids if pid != os.getpid() and (_threads_in(pid, inodes) or _is_marked(pid, mark)))


def _is_marked(pid: int, mark: bytes) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def _threads_in(pid: int, inodes: set[int]) -> bool:
    # it may end while we look; and what even root may not look into (in a container) no command of ours has started
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            if os.stat(f"/proc/{pid}/task/{thread}/ns/net").st_ino in inodes:
                return True
    return False


def is_alive(pid: int) -> bool:
    """Is there such a process, other than one that waits only to be reaped?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def lives_in(pid: int, namespace: str) -> bool:
    """Is there such a process, and in that namespace? (A number on file may be another process's by now.)

    Who may not look, not being root, is told whether there is any process of that number.
    """
    if not is_alive(pid):
        return False
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino == netns.inode(namespace)
    except PermissionError:
        return True
    except (FileNotFoundError, ProcessLookupError):
        return False


def holding_maps() -> dict[int, str]:
    """Processes that have an eBPF map in their memory: pid and command line. Which map, the kernel does not say."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if "anon_inode:bpf-map" in Path(f"/proc/{entry}/maps").read_text():
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                found[int(entry)] = b" ".join(words).decode(errors="replace").strip()
    return found


def end_all(lab: str, inodes: set[int], grace_s: float, kill_s: float = 2.0) -> int:
    """End the processes of a lab: SIGTERM, after `grace_s` SIGKILL. Returns how many there were.

    Raises MrclabError if some stay.
    """
    ended: set[int] = set()
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_s)):
        deadline = time.monotonic() + wait_s
        while pids := _living(lab, inodes):  # more than once: one of them may just have forked
            ended.update(pids)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            while any(map(is_alive, pids)) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            if time.monotonic() >= deadline:
                break
        else:
            return len(ended)
    if left := _living(lab, inodes):
        raise MrclabError(f"processes {', '.join(map(str, left))} of lab {lab} do not end")
    return len(ended)


def _living(lab: str, inodes: set[int]) -> list[int]:
    return [pid for pid in of_lab(lab, inodes) if is_alive(pid)]
