"""System calls that Python 3.11 does not offer, and what they take."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)

# (fd, array of MessageHeader, how many, flags, ...) -> how many, or -1
recvmmsg = _libc.recvmmsg
sendmmsg = _libc.sendmmsg
# (fd, array of struct epoll_event, its length, pointer to Timespec, None) -> how many, or -1 (Linux 5.11)
epoll_pwait2 = _libc.epoll_pwait2


class Timespec(ctypes.Structure):
    """struct timespec."""

    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class IoVector(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class _Message(ctypes.Structure):
    """struct msghdr of recvmsg(2)."""

    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class MessageHeader(ctypes.Structure):
    """struct mmsghdr of recvmmsg(2) and sendmmsg(2)."""

    _fields_ = [("message", _Message), ("length", ctypes.c_uint32)]


def enter_network_namespace(path: str | Path) -> None:
    """Move the calling thread into the network namespace that `path` names. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_open_namespace(handle)
    finally:
        os.close(handle)


def enter_open_namespace(handle: int) -> None:
    """Move the calling thread into the network namespace that is open as `handle`. Raises OSError."""
    if _libc.setns(handle, _CLONE_NEWNET) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
