"""Writes pcapng files (IETF opsawg draft "PCAP Next Generation"): packets with nanoseconds, direction, and where from.

Of the format this is one section, its interfaces and enhanced packet blocks; Wireshark, tshark and scapy read it.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER = 0x1A2B3C4D
_LINKTYPE_ETHERNET = 1
_END, _COMMENT = 0, 1  # options of every block
_IF_NAME, _IF_DESCRIPTION, _IF_TSRESOL = 2, 3, 9
_PACKET_FLAGS = 2
_NANOSECONDS = b"\x09"
_INBOUND, _OUTBOUND = 1, 2


class Writer:
    """One file with one interface. `comment` says what the capture is of."""

    def __init__(self, file: BinaryIO, interface: str, description: str, comment: str) -> None:
        self._file = file
        unknown_length = struct.pack("=q", -1)
        section = struct.pack("=IHH", _BYTE_ORDER, 1, 0) + unknown_length
        self._block(_SECTION, section + _options((_COMMENT, comment.encode())))
        options = (_IF_NAME, interface.encode()), (_IF_DESCRIPTION, description.encode()), (_IF_TSRESOL, _NANOSECONDS)
        self._block(_INTERFACE, struct.pack("=HHI", _LINKTYPE_ETHERNET, 0, 0) + _options(*options))

    def packet(self, t_ns: int, frame: bytes, *, outbound: bool) -> None:
        """A frame that went by at `t_ns` since the epoch, out of the interface or into it."""
        head = struct.pack("=IIIII", 0, t_ns >> 32, t_ns & 0xFFFFFFFF, len(frame), len(frame))
        flags = struct.pack("=I", _OUTBOUND if outbound else _INBOUND)
        self._block(_PACKET, head + _padded(frame) + _options((_PACKET_FLAGS, flags)))

    def _block(self, kind: int, body: bytes) -> None:
        length = struct.pack("=I", 12 + len(body))
        self._file.write(struct.pack("=I", kind) + length + body + length)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _options(*options: tuple[int, bytes]) -> bytes:
    encoded = b"".join(struct.pack("=HH", code, len(value)) + _padded(value) for code, value in options)
    return encoded + struct.pack("=HH", _END, 0)
