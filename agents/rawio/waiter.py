"""Waiting for file descriptors, to the nanosecond."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import struct
from typing import Any, Final

from agents.rawio.libc import Timespec, epoll_pwait2

_NS_PER_S: Final = 1_000_000_000
_MAX_READY: Final = 64

# struct epoll_event: events u32, data u64 (of which `select.epoll` sets the fd); packed on x86 (linux/eventpoll.h)
_EPOLL_EVENT = struct.Struct("=Ii4x" if platform.machine() in ("x86_64", "i686") else "=I4xi4x")


class Waiter:
    """epoll with a timeout in ns, in one system call (epoll_pwait2, Linux 5.11); `select.epoll` rounds up to ms."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.register = self._epoll.register
        self.modify = self._epoll.modify
        self.unregister = self._epoll.unregister
        self._ready = ctypes.create_string_buffer(_EPOLL_EVENT.size * _MAX_READY)
        self._events = memoryview(self._ready)
        self._timeout: Any = Timespec()
        self._fd = self._epoll.fileno()
        self._pointer = ctypes.byref(self._timeout)

    def wait(self, timeout_ns: int) -> list[tuple[int, int]]:
        """(events, file descriptor) of what is ready, after `timeout_ns` at the latest; nothing after a signal."""
        self._timeout.seconds, self._timeout.nanoseconds = divmod(max(0, timeout_ns), _NS_PER_S)
        count: int = epoll_pwait2(self._fd, self._ready, _MAX_READY, self._pointer, None)
        if count < 0:
            number = ctypes.get_errno()
            if number == errno.EINTR:
                return []
            raise OSError(number, f"epoll_pwait2: {os.strerror(number)}")
        return list(_EPOLL_EVENT.iter_unpack(self._events[: count * _EPOLL_EVENT.size]))

    def close(self) -> None:
        """Give the file descriptor back."""
        self._epoll.close()
