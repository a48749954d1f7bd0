"""Batches of packets by one system call: room for packets that is laid out once and used again."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Sequence
from typing import Any, Final

from agents.rawio.libc import IoVector, MessageHeader, recvmmsg, sendmmsg

Buffer = bytes | bytearray | memoryview

_DONT_WAIT: Final = int(socket.MSG_DONTWAIT)
_WORD_BYTES: Final = 4
_VECTOR_WORDS: Final = ctypes.sizeof(IoVector) // ctypes.sizeof(ctypes.c_size_t)


class _Room:
    """Slots of `packet_bytes` each, and what the kernel has to be told about them."""

    def __init__(self, packets: int, packet_bytes: int) -> None:
        memory = ctypes.create_string_buffer(packets * packet_bytes)
        view = memoryview(memory).cast("B")
        self.slots = [view[at : at + packet_bytes] for at in range(0, packets * packet_bytes, packet_bytes)]
        self.headers: Any = (MessageHeader * packets)()
        self.vectors: Any = (IoVector * packets)()
        for number in range(packets):
            base = ctypes.addressof(memory) + number * packet_bytes
            self.vectors[number] = IoVector(base, packet_bytes)
            self.headers[number].message.vectors = ctypes.addressof(self.vectors[number])
            self.headers[number].message.vector_count = 1


class Inbox:
    """Room for a batch of packets, taken from a socket in one system call; what is behind `packet_bytes` is cut off."""

    def __init__(self, packets: int, packet_bytes: int) -> None:
        self.size = packets
        self._room = room = _Room(packets, packet_bytes)
        self._slots = room.slots
        self._headers = room.headers
        self._words = memoryview(room.headers).cast("B").cast("I")
        words = ctypes.sizeof(MessageHeader) // _WORD_BYTES
        self._length_at = [number * words + MessageHeader.length.offset // _WORD_BYTES for number in range(packets)]

    def fill(self, fd: int, limit: int) -> list[memoryview]:
        """The packets that wait in a socket, up to `limit` and `size`; each is there until the next call.

        It is empty when nothing waits, and also after an error: that of a port that has gone down comes once, and says
        only what the carrier says.
        """
        count: int = recvmmsg(fd, self._headers, min(limit, self.size), _DONT_WAIT, None)
        words, slots, length_at = self._words, self._slots, self._length_at
        return [slots[number][: words[length_at[number]]] for number in range(count)]


class Outbox:
    """A batch of packets, written one behind the other from their buffers and given to a socket in one system call."""

    def __init__(self, start: bytes, packets: int, packet_bytes: int) -> None:
        """`start`: the bytes that all packets begin with."""
        self._start_bytes = len(start)
        self._packet_bytes = packet_bytes
        self._room = room = _Room(packets, packet_bytes)
        self._slots = room.slots
        self._headers = room.headers
        self._words = memoryview(room.vectors).cast("B").cast("L")
        self._lengths: list[int] = []
        for slot in self._slots:
            slot[: len(start)] = start

    def __len__(self) -> int:
        """Packets in the batch."""
        return len(self._lengths)

    def put(self, parts: Sequence[Buffer]) -> bool:
        """Add a packet, unless there is no room for it."""
        number = len(self._lengths)
        if number == len(self._slots):
            return False
        slot = self._slots[number]
        at = self._start_bytes
        for part in parts:
            end = at + len(part)
            if end > self._packet_bytes:
                return False
            slot[at:end] = part
            at = end
        self._words[number * _VECTOR_WORDS + 1] = at
        self._lengths.append(at)
        return True

    def send(self, fd: int) -> tuple[int, int]:
        """Give the batch to a socket, and forget it: (packets, bytes) that were taken, from the first packet on."""
        lengths = self._lengths
        taken: int = max(0, sendmmsg(fd, self._headers, len(lengths), _DONT_WAIT))
        total = sum(lengths) if taken == len(lengths) else sum(lengths[:taken])
        lengths.clear()
        return taken, total
