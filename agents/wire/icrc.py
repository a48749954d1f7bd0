"""The invariant CRC of RoCEv2 over IPv6 (IBTA volume 1, annex A17): what routers may change counts as all ones.

CRC-32 (polynomial 0x04C11DB7, as in zlib) over eight 0xFF bytes, then the inner IPv6 packet up to the ICRC itself, with
traffic class, flow label, hop limit, UDP checksum and the reserved byte of the BTH masked to ones. The result is
appended least significant byte first. It covers the inner packet: the outer IPv6 header is the fabric's.
"""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32 as crc32  # the same value, seven times faster
except ImportError:
    from zlib import crc32 as crc32

Buffer = bytes | bytearray | memoryview

ICRC_BYTES = 4

_MASKED_LRH_AND_WORD = b"\xff" * 8 + b"\x6f\xff\xff\xff"
_MASKED_BYTE = b"\xff"
_MASKED_CHECKSUM = b"\xff\xff"


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
    bth_to_pkey, behind_bth_reserved = packet[48:52], packet[53:]
    crc = crc32(b"".join((bth_to_pkey, _MASKED_BYTE)), headers_crc(packet))
    crc = crc32(behind_bth_reserved, crc)
    for buffer in more:
        crc = crc32(buffer, crc)
    return crc
