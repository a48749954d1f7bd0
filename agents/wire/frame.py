"""Headers -> bytes: packets from prebuilt templates, one template for each (peer, EV).

Everything that a path fixes (both IPv6 headers, UDP, the CRC over them) is computed once and kept by packet size and
class; a packet then costs one struct pack and the CRC of its own bytes. The payload is not copied: packets come as
buffers for one gathering write. The outer header carries the same traffic class, flow label and source as the inner;
where the fabric hashes flows onto paths, packets go without it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from agents.wire import address, ev, headers, icrc
from agents.wire.dscp import CONTROL, traffic_class
from agents.wire.headers import ControlBody
from agents.wire.icrc import Buffer, crc32
from agents.wire.packet import DEFAULT_UDP_PORT, IPV6_BYTES, NEXT_HEADER_IPV6, NEXT_HEADER_UDP, UDP_BYTES

DEFAULT_HOP_LIMIT = 64

_IPV6 = struct.Struct("!IHBB16s16s")
_UDP = struct.Struct("!HHHH")
# BTH and all that follows up to the payload, by (with TSETH, with ImmDt)
_WRITE = {kind: struct.Struct("!BBHII" + layout.format[1:]) for kind, layout in headers.WRITE_HEADERS.items()}
_STAMPED_WRITE: Final = _WRITE[True, False]
_STAMPED_WRITE_IMM: Final = _WRITE[True, True]
# The same of plain RoCE, by (with RETH, with ImmDt)
_RC_WRITE = {kind: struct.Struct("!BBHII" + layout.format[1:]) for kind, layout in headers.RC_WRITE_HEADERS.items()}

# The reserved byte of the BTH counts as ones in the ICRC and is zero on the wire.
_RESERVED_ONES = 0xFF << 24
_RESERVED_AT = 4
_ZERO = b"\0"
_BECN = bytes([headers.BTH_BECN])
_PAD: Final = (b"", b"\0", b"\0\0", b"\0\0\0")

_MAX_CACHED_SIZES = 64


class PathTemplate:
    """All packets to one peer over one EV start the same way; this is how."""

    __slots__ = (
        "_last", "_last_dscp", "_last_size", "_outer_destination", "_prefixes", "dst", "ev", "hop_limit", "src",
        "udp_port",
    )  # fmt: skip

    def __init__(
        self,
        *,
        src: bytes,
        dst: bytes,
        usids: Sequence[int] | None,
        ev: int,
        block: int = address.DEFAULT_BLOCK,
        udp_port: int = DEFAULT_UDP_PORT,
        hop_limit: int = DEFAULT_HOP_LIMIT,
    ) -> None:
        """`src`, `dst`: 16-byte host addresses; `usids`: the way there, own T0 first, downlink last.

        `usids` None: no outer header, the fabric chooses the way.
        """
        self.src = src
        self.dst = dst
        self.ev = ev
        self.udp_port = udp_port
        self.hop_limit = hop_limit
        self._outer_destination = None if usids is None else address.sid_address(block, *usids)
        self._prefixes: dict[tuple[int, int], tuple[bytes, int, int]] = {}
        self._last_dscp = self._last_size = -1  # most packets are like the last one
        self._last: tuple[bytes, int, int] = b"", 0, 0

    def prefix(self, dscp: int, size: int) -> tuple[bytes, int, int]:
        """(outer IPv6 + inner IPv6 + UDP headers, CRC state after them, what to XOR) for `size` bytes from BTH to ICRC.

        The last is for a BTH that went into the CRC with zeros in its reserved byte, as the wire has it.
        """
        if size == self._last_size and dscp == self._last_dscp:
            return self._last
        found = self._prefixes.get((dscp, size))
        if found is None:
            if len(self._prefixes) >= _MAX_CACHED_SIZES:  # message sizes may be many; a few are hot
                self._prefixes.clear()
            found = self._prefixes[dscp, size] = self._build(dscp, size)
        self._last, self._last_dscp, self._last_size = found, dscp, size
        return found

    def _build(self, dscp: int, size: int) -> tuple[bytes, int, int]:
        first_word = 6 << 28 | traffic_class(dscp) << 20 | ev.flow_label(self.ev)
        udp_length = UDP_BYTES + size
        inner = _IPV6.pack(first_word, udp_length, NEXT_HEADER_UDP, self.hop_limit, self.src, self.dst) + _UDP.pack(
            ev.source_port(self.ev), self.udp_port, udp_length, 0
        )
        state = icrc.headers_crc(inner)
        correction = icrc.correction(*icrc.MASKED_FIELDS[:-1], 0, len(inner) + size - icrc.ICRC_BYTES)
        if self._outer_destination is None:
            return inner, state, correction
        outer = _IPV6.pack(
            first_word, udp_length + IPV6_BYTES, NEXT_HEADER_IPV6, self.hop_limit, self.src, self._outer_destination
        )
        return outer + inner, state, correction


def write(
    path: PathTemplate,
    *,
    dscp: int,
    dest_qp: int,
    psn: int,
    opcode: int,
    msn: int,
    rqmsn: int,
    address: int,
    rkey: int,
    length: int,
    payload: Buffer,
    immediate: int | None = None,
    tx_timestamp: int | None = None,
    ack_request: bool = False,
    retransmission: bool = False,
) -> tuple[Buffer, ...]:
    """A WRITE packet as (headers, payload, pad + ICRC).

    `address` is where this payload goes, `length` the bytes of the whole message; `immediate` exactly with the opcodes
    that carry one; `tx_timestamp` in ticks. Raises struct.error when a number does not fit its field.
    """
    pad = -len(payload) & 3
    bth_flags = pad << headers.BTH_PAD_SHIFT
    psn_word = psn
    if ack_request:
        psn_word |= headers.BTH_ACK_REQUEST
    if retransmission:
        psn_word |= headers.BTH_RETRANSMISSION
    pkey = headers.DEFAULT_PKEY
    if tx_timestamp is not None:
        psn_word |= headers.BTH_TIMESTAMP
    if tx_timestamp is not None and immediate is None:  # nearly all
        packed = _STAMPED_WRITE.pack(
            opcode, bth_flags, pkey, dest_qp, psn_word, rqmsn, msn, tx_timestamp, headers.TSETH_FTYPE,
            address, rkey, length,
        )  # fmt: skip
    elif tx_timestamp is not None:
        packed = _STAMPED_WRITE_IMM.pack(
            opcode, bth_flags, pkey, dest_qp, psn_word, rqmsn, msn, tx_timestamp, headers.TSETH_FTYPE,
            address, rkey, length, immediate,
        )  # fmt: skip
    else:
        packed = _WRITE[False, immediate is not None].pack(
            opcode, bth_flags, pkey, dest_qp, psn_word, rqmsn, msn, address, rkey, length,
            *(() if immediate is None else (immediate,)),
        )  # fmt: skip
    return _sealed(path, dscp, packed, payload, pad)


def rc_write(
    path: PathTemplate,
    *,
    dscp: int,
    dest_qp: int,
    psn: int,
    opcode: int,
    reth: tuple[int, int, int] | None,
    payload: Buffer,
    immediate: int | None = None,
    ack_request: bool = False,
) -> tuple[Buffer, ...]:
    """A WRITE packet of plain RoCE as (headers, payload, pad + ICRC).

    `reth`: (address, rkey, bytes) of the whole message, exactly in its first packet; `immediate` exactly with the
    opcodes that carry one. Raises struct.error when a number does not fit its field.
    """
    pad = -len(payload) & 3
    packed = _RC_WRITE[reth is not None, immediate is not None].pack(
        opcode,
        pad << headers.BTH_PAD_SHIFT,
        headers.DEFAULT_PKEY,
        dest_qp,
        psn | headers.BTH_ACK_REQUEST if ack_request else psn,
        *(reth or ()),
        *(() if immediate is None else (immediate,)),
    )
    return _sealed(path, dscp, packed, payload, pad)


def _sealed(path: PathTemplate, dscp: int, packed: bytes, payload: Buffer, pad: int) -> tuple[Buffer, ...]:
    prefix, crc, correction = path.prefix(dscp, len(packed) + len(payload) + pad + icrc.ICRC_BYTES)
    crc = crc32(payload, crc32(packed, crc))
    if pad:
        return prefix + packed, payload, _PAD[pad] + (crc32(_PAD[pad], crc) ^ correction).to_bytes(4, "little")
    return prefix + packed, payload, (crc ^ correction).to_bytes(4, "little")


def control(
    path: PathTemplate, *, dest_qp: int, psn: int, opcode: int, body: ControlBody, dscp: int = CONTROL
) -> tuple[Buffer, ...]:
    """A packet with one control body, as a single buffer. Probes that shall test the data class name its `dscp`."""
    masked = headers.BTH.pack(opcode, 0, headers.DEFAULT_PKEY, _RESERVED_ONES | dest_qp, psn) + body.pack()
    prefix, crc, _ = path.prefix(dscp, len(masked) + icrc.ICRC_BYTES)
    crc = crc32(masked, crc)
    reserved = _BECN if opcode == headers.Opcode.CNP else _ZERO
    return (b"".join((prefix, masked[:_RESERVED_AT], reserved, masked[_RESERVED_AT + 1 :], crc.to_bytes(4, "little"))),)
