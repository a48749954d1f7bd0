"""One command at a time changes a lab: an exclusive lock on a file in its folder, held for as long as that takes.

The kernel frees it when its holder dies, however that dies. The holder writes who it is into the file, so that the one
that has to wait can say for whom.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.lab import state
from testbed.topology.errors import InputError

_FILE = "lock"
_POLL_S = 0.05


@contextlib.contextmanager
def exclusive(lab: str, what: str, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lab's lock, making its folder if need be (and removing it again when it stays empty).

    `what` is what the holder does, for others to read. Raises InputError, with the holder's words, when the lock is
    not free within `wait_s`.
    """
    deadline = time.monotonic() + wait_s
    while True:
        fd = _open(lab)
        try:
            if _try_lock(fd) and _is_current(fd, lab):
                break
        except BaseException:
            os.close(fd)
            raise
        holder = os.pread(fd, 200, 0).decode(errors="replace").strip() or "another command"
        os.close(fd)
        if time.monotonic() >= deadline:
            raise InputError(f"lab {lab} is busy: {holder}", "try again when that is done")
        time.sleep(_POLL_S)
    try:
        with contextlib.suppress(OSError):  # a full disk: the lock holds without these words
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{what} (pid {os.getpid()})\n".encode(), 0)
        yield
    finally:
        if _is_current(fd, lab):  # else the next one has made the folder anew already
            _remove_folder_if_empty(lab)
        with contextlib.suppress(OSError):  # other labs are in it, or it is gone
            state.STATE_ROOT.rmdir()
        os.close(fd)


def _path(lab: str) -> Path:
    return state.directory(lab) / _FILE


def _open(lab: str) -> int:
    while True:
        # a folder may go in between, with the `down` of another command
        with contextlib.suppress(FileNotFoundError):
            state.STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
            state.directory(lab).mkdir(mode=0o755, exist_ok=True)
            return os.open(_path(lab), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(fd: int, lab: str) -> bool:
    """False when the folder was removed, and perhaps made anew, before we had the lock."""
    try:
        found = os.stat(_path(lab))
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)


def _remove_folder_if_empty(lab: str) -> None:
    folder = state.directory(lab)
    if os.listdir(folder) == [_FILE]:
        os.unlink(folder / _FILE)
        folder.rmdir()
