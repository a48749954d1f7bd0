"""The invariant CRC of RoCEv2 over IPv6 (IBTA volume 1, annex A17): what routers may change counts as all ones.

CRC-32 (polynomial 0x04C11DB7, as in zlib) over eight 0xFF bytes, then the inner IPv6 packet up to the ICRC itself, with
traffic class, flow label, hop limit, UDP checksum and the reserved byte of the BTH masked to ones. The result is
appended least significant byte first. It covers the inner packet: the outer IPv6 header is the fabric's.
"""

from __future__ import annotations

import struct
from typing import Final

try:
    from isal.isal_zlib import crc32 as crc32  # the same value, seven times faster
except ImportError:
    from zlib import crc32 as crc32

Buffer = bytes | bytearray | memoryview

ICRC_BYTES: Final = 4

_MASKED_LRH_AND_WORD = b"\xff" * 8 + b"\x6f\xff\xff\xff"
_MASKED_BYTE = b"\xff"
_MASKED_CHECKSUM = b"\xff\xff"
_MASKED_LRH_CRC = crc32(b"\xff" * 8)

# What routers may change, in the inner IPv6 packet: first word (version, traffic class, flow label), hop limit, UDP
# checksum, reserved byte of the BTH; and what they count as.
_CHANGEABLE = struct.Struct("!I3xB38xH4xB")
MASKED_FIELDS = (0x6FFFFFFF, 0xFF, 0xFFFF, 0xFF)
_MAX_CORRECTIONS: Final = 4096
_corrections: dict[tuple[int, int, int, int, int], int] = {}
# What CRC-32 leaves of bytes with their own CRC behind them, whatever they are.
_RESIDUE: Final = 0x2144DF1C
_SIZE_BITS: Final = 17
_MAX_KINDS: Final = 64
_remainders: dict[int, dict[int, int]] = {}  # by the small fields, then by word and size


def headers_crc(packet: Buffer) -> int:
    """The CRC state after the inner IPv6 and UDP headers, the first 48 bytes of `packet`."""
    length_and_next_header, addresses_to_udp_length = packet[4:7], packet[8:46]
    return crc32(
        b"".join(
            (_MASKED_LRH_AND_WORD, length_and_next_header, _MASKED_BYTE, addresses_to_udp_length, _MASKED_CHECKSUM)
        )
    )


def value(packet: Buffer, *more: Buffer) -> int:
    """The ICRC of an inner IPv6 packet, given without it, as the number that the wire has in little-endian order.

    `packet` starts at the inner IPv6 header and holds at least the BTH; what follows (payload, pad bytes) may be in
    it or come as further buffers. Give views: they are read in place.
    """
    crc = crc32(packet, _MASKED_LRH_CRC)
    size = len(packet)
    for buffer in more:
        crc = crc32(buffer, crc)
        size += len(buffer)
    word, hop_limit, checksum, reserved = _CHANGEABLE.unpack_from(packet)
    return crc ^ correction(word, hop_limit, checksum, reserved, size)


def correction(word: int, hop_limit: int, checksum: int, reserved: int, size: int) -> int:
    """What turns the CRC over a packet of `size` bytes as it is into that over the masked one, by XOR.

    A CRC is linear: it depends on the masked fields only by what they hold and how far they are from the end. So this
    is worked out once for each set of values, and packets are read once and in place.
    """
    key = (word, hop_limit, checksum, reserved, size)
    found = _corrections.get(key)
    if found is None:
        if len(_corrections) >= _MAX_CORRECTIONS:
            _corrections.clear()
        plain, masked = bytearray(size), bytearray(size)
        _CHANGEABLE.pack_into(plain, 0, word, hop_limit, checksum, reserved)
        _CHANGEABLE.pack_into(masked, 0, *MASKED_FIELDS)
        found = _corrections[key] = crc32(plain) ^ crc32(masked)
    return found


def is_intact(packet: Buffer, word: int, hop_limit: int, checksum: int, reserved: int) -> bool:
    """Whether an inner IPv6 packet with its ICRC is what was sent; with the changeable fields as it has them.

    One pass over all of it, the ICRC included: what that leaves of an intact packet depends on these fields and the
    size alone, and is worked out once for each set of values.
    """
    kind = hop_limit << 24 | checksum << 8 | reserved
    known = _remainders.get(kind)
    if known is None:
        if len(_remainders) >= _MAX_KINDS:
            _remainders.clear()
        known = _remainders[kind] = {}
    size = len(packet) - ICRC_BYTES
    key = word << _SIZE_BITS | size
    remainder = known.get(key)
    if remainder is None:
        if len(known) >= _MAX_CORRECTIONS:
            known.clear()
        changed = correction(word, hop_limit, checksum, reserved, size).to_bytes(ICRC_BYTES, "little")
        remainder = known[key] = _RESIDUE ^ crc32(changed) ^ crc32(bytes(ICRC_BYTES))
    return crc32(packet, _MASKED_LRH_CRC) == remainder
