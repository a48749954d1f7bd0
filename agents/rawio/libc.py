"""System calls that Python 3.11 does not offer: `setns`, `recvmmsg`, `sendmmsg`, and waiting to the nanosecond."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import struct
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_NS_PER_S = 1_000_000_000
_MAX_READY = 64

# struct epoll_event: events u32, data u64 (of which `select.epoll` sets the fd); packed on x86 (linux/eventpoll.h)
_EPOLL_EVENT = struct.Struct("=Ii4x" if platform.machine() in ("x86_64", "i686") else "=I4xi4x")

_libc = ctypes.CDLL(None, use_errno=True)

# (fd, array of MessageHeader, how many, flags, ...) -> how many, or -1
recvmmsg = _libc.recvmmsg
sendmmsg = _libc.sendmmsg


class _Timespec(ctypes.Structure):
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


class Waiter:
    """epoll with a timeout in ns, in one system call (epoll_pwait2, Linux 5.11); `select.epoll` rounds up to ms."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.register = self._epoll.register
        self.modify = self._epoll.modify
        self.unregister = self._epoll.unregister
        self._ready = ctypes.create_string_buffer(_EPOLL_EVENT.size * _MAX_READY)
        self._events = memoryview(self._ready)
        self._timeout = _Timespec()
        self._arguments = (self._epoll.fileno(), self._ready, _MAX_READY, ctypes.byref(self._timeout), None)

    def wait(self, timeout_ns: int) -> list[tuple[int, int]]:
        """(events, file descriptor) of what is ready, after `timeout_ns` at the latest; nothing after a signal."""
        self._timeout.seconds, self._timeout.nanoseconds = divmod(max(0, timeout_ns), _NS_PER_S)
        count = _libc.epoll_pwait2(*self._arguments)
        if count < 0:
            number = ctypes.get_errno()
            if number == errno.EINTR:
                return []
            raise OSError(number, f"epoll_pwait2: {os.strerror(number)}")
        return list(_EPOLL_EVENT.iter_unpack(self._events[: count * _EPOLL_EVENT.size]))

    def close(self) -> None:
        """Give the file descriptor back."""
        self._epoll.close()
