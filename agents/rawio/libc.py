"""System calls that Python 3.11 does not offer: `setns` and timer file descriptors."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_CLOCK_MONOTONIC = 1
_CLONE_NEWNET = 0x40000000
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
_NS_PER_S = 1_000_000_000

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Itimerspec(ctypes.Structure):
    _fields_ = [("interval", _Timespec), ("value", _Timespec)]


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def enter_network_namespace(path: str | Path) -> None:
    """Move the calling thread into the network namespace that `path` names. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.setns(handle, _CLONE_NEWNET), f"setns {path}")
    finally:
        os.close(handle)


class Timer:
    """A timer on CLOCK_MONOTONIC whose file descriptor is readable from its deadline on, to the microsecond.

    `epoll` alone rounds its timeout up to milliseconds.
    """

    def __init__(self) -> None:
        self._fd = _checked(_libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC), "timerfd_create")
        self._setting = _Itimerspec()
        self._pointer = ctypes.byref(self._setting)
        self._deadline_ns: int | None = None

    def fileno(self) -> int:
        """The file descriptor, to be waited for."""
        return self._fd

    def arm(self, deadline_ns: int | None) -> None:
        """Fire at `deadline_ns` (at once when that is past), or never. Arming again takes back an earlier firing."""
        if deadline_ns == self._deadline_ns:
            return
        self._deadline_ns = deadline_ns
        # A setting of zero would disarm the timer; one nanosecond after boot is past as well.
        seconds, nanoseconds = divmod(max(deadline_ns, 1), _NS_PER_S) if deadline_ns is not None else (0, 0)
        self._setting.value.seconds = seconds
        self._setting.value.nanoseconds = nanoseconds
        _checked(_libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, self._pointer, None), "timerfd_settime")

    def close(self) -> None:
        """Give the file descriptor back."""
        os.close(self._fd)
