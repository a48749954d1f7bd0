"""System calls that Python 3.11 does not offer: `setns`, `recvmmsg`, and waiting to the nanosecond."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import socket
import struct
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_NS_PER_S = 1_000_000_000
_MAX_READY = 64

# struct epoll_event: events u32, data u64 (of which `select.epoll` sets the fd); packed on x86 (linux/eventpoll.h)
_EPOLL_EVENT = struct.Struct("=Ii4x" if platform.machine() in ("x86_64", "i686") else "=I4xi4x")

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _IoVector(ctypes.Structure):
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


class _MessageHeader(ctypes.Structure):
    """struct mmsghdr of recvmmsg(2)."""

    _fields_ = [("message", _Message), ("length", ctypes.c_uint32)]


class Inbox:
    """Room for a batch of packets, taken from a socket in one system call; what is behind `packet_bytes` is cut off."""

    def __init__(self, packets: int, packet_bytes: int) -> None:
        self.size = packets
        memory = ctypes.create_string_buffer(packets * packet_bytes)
        view = memoryview(memory).cast("B")
        self._slots = [view[at : at + packet_bytes] for at in range(0, packets * packet_bytes, packet_bytes)]
        self._headers = (_MessageHeader * packets)()
        self._vectors = (_IoVector * packets)()
        for number in range(packets):
            base = ctypes.addressof(memory) + number * packet_bytes
            self._vectors[number] = _IoVector(base, packet_bytes)
            self._headers[number].message.vectors = ctypes.addressof(self._vectors[number])
            self._headers[number].message.vector_count = 1
        self._words = memoryview(self._headers).cast("B").cast("I")
        words = ctypes.sizeof(_MessageHeader) // 4
        self._length_at = [number * words + _MessageHeader.length.offset // 4 for number in range(packets)]

    def fill(self, fd: int, limit: int) -> list[memoryview]:
        """The packets that wait in a socket, up to `limit` and `size`; each is there until the next call.

        None when nothing waits, and also after an error: that of a port that has gone down comes once, and says only
        what the carrier says.
        """
        count = _libc.recvmmsg(fd, self._headers, min(limit, self.size), socket.MSG_DONTWAIT, None)
        words = self._words
        return (
            [slot[: words[at]] for slot, at in zip(self._slots[:count], self._length_at, strict=False)]
            if count > 0
            else []
        )


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
