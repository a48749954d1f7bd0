"""Attributes of netlink messages (RFC 3549, section 2.2): written, and picked by number out of what the kernel sends.

An attribute is its length, its number and its value, padded to four bytes; a nested one holds attributes. A lab of 192
nodes writes 27 000 messages and reads as many back, so nothing is looked at here but what somebody asks for.
"""

from __future__ import annotations

import struct
import sys

_HEADER = struct.Struct("=HH")
_NUMBER_MASK = 0x3FFF  # the two bits above say "nested" and "network byte order"
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")

_U8, _U16 = struct.Struct("=HHB3x"), struct.Struct("=HHHxx")
_U32, _U64 = struct.Struct("=HHI"), struct.Struct("=HHQ")


def raw(number: int, value: bytes) -> bytes:
    """An attribute with these bytes as its value."""
    return _HEADER.pack(len(value) + 4, number) + value + _PADDING[len(value) & 3]


def u8(number: int, value: int) -> bytes:
    """An attribute of one byte."""
    return _U8.pack(5, number, value)


def u16(number: int, value: int) -> bytes:
    """An attribute of two bytes, of the machine's order."""
    return _U16.pack(6, number, value)


def u32(number: int, value: int) -> bytes:
    """An attribute of four bytes, of the machine's order."""
    return _U32.pack(8, number, value)


def u64(number: int, value: int) -> bytes:
    """An attribute of eight bytes, of the machine's order."""
    return _U64.pack(12, number, value)


def text(number: int, value: str) -> bytes:
    """An attribute that holds a word, ended by a zero."""
    return raw(number, value.encode() + b"\0")


def nested(number: int, *inside: bytes) -> bytes:
    """An attribute that holds others."""
    return raw(number, b"".join(inside))


def pick(data: bytes, at: int = 0) -> dict[int, bytes]:
    """The values by number, from `at` on; of a number that comes twice the last."""
    found = {}
    end = len(data)
    unpack = _HEADER.unpack_from
    while at + 4 <= end:
        length, number = unpack(data, at)
        if length < 4:  # what no kernel sends: nothing can be said of the rest
            break
        found[number & _NUMBER_MASK] = data[at + 4 : at + length]
        at += length + 3 & ~3
    return found


def as_int(value: bytes) -> int:
    """A number of the machine's order, however long."""
    return int.from_bytes(value, sys.byteorder)


def as_text(value: bytes) -> str:
    """A word, without the zero at its end."""
    return value.rstrip(b"\0").decode()
