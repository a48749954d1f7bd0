"""Bytes -> Packet: decodes what a NIC port received, from the first IPv6 header on.

Follows the packet stack of the MRC paper (section 3): outer IPv6 | inner IPv6 | UDP | BTH | ... | ICRC; where the
fabric hashes flows onto paths, the outer header is not there. `parse` checks every length, every next header and the
ICRC, and answers whatever is not a whole, intact packet of MRC or plain RoCE with `WireError`. Whether a packet makes
sense (rkey, window, state) is the transport's to judge.
"""

from __future__ import annotations

import struct
from typing import Final

from agents.wire import headers, icrc
from agents.wire.dscp import TRIMMED_CLASSES
from agents.wire.headers import ControlBody

IPV6_BYTES: Final = 40
UDP_BYTES: Final = 8
NEXT_HEADER_UDP: Final = 17
NEXT_HEADER_IPV6: Final = 41
DEFAULT_UDP_PORT: Final = 4791  # a setting: one place of the MRC text is said to print 4971

# Outer IPv6, inner IPv6, UDP and BTH in one unpack: first word, payload length, next header; of the inner one also hop
# limit and addresses; ports, length, checksum; BTH.
_COMMON: Final = struct.Struct("!IHBx32x IHBB16s16s HHHH BB2xII")
# The same without the outer header.
_BARE: Final = struct.Struct("!IHBB16s16s HHHH BB2xII")
_NEXT_HEADER_AT: Final = 6
# METH .. ImmDt; an immediate adds 1 to the place, a TSETH 2.
_WRITE_LAYOUTS: Final = [
    headers.WRITE_HEADERS[stamped, immediate] for stamped in (False, True) for immediate in (False, True)
]
_SHORTEST: Final = _BARE.size + icrc.ICRC_BYTES
_RESERVED_SHIFT: Final = 24
_IPV6_VERSION: Final = 6


class WireError(ValueError):
    """The bytes are not a packet that this end takes. `reason` is one of REASONS, to be counted by."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# reason -> what it says
REASONS = {
    "short": "fewer bytes than the headers need",
    "version": "an IP version or BTH version that is not ours",
    "next-header": "neither UDP in IPv6 nor that in IPv6 again",
    "port": "another UDP destination port",
    "length": "the length fields contradict each other or the data",
    "opcode": "an opcode that is neither MRC's nor of an RC write, or one that cannot have been trimmed",
    "timestamp": "a TSETH of unknown type",
    "icrc": "the ICRC is wrong",
}


class Write:
    """Body of a WRITE packet."""

    __slots__ = ("address", "immediate", "length", "msn", "payload", "rkey", "rqmsn", "tx_timestamp")

    def __init__(
        self,
        rqmsn: int,
        msn: int,
        tx_timestamp: int | None,
        address: int,
        rkey: int,
        length: int,
        immediate: int | None,
        payload: memoryview,
    ) -> None:
        self.rqmsn = rqmsn
        self.msn = msn
        self.tx_timestamp = tx_timestamp  # ticks, from TSETH
        self.address = address  # where this packet's payload goes
        self.rkey = rkey
        self.length = length  # of the whole message, in bytes
        self.immediate = immediate
        self.payload = payload  # a view into the input; empty when trimmed


class RcWrite:
    """Body of a WRITE packet of plain RoCE."""

    __slots__ = ("immediate", "payload", "reth")

    def __init__(self, reth: tuple[int, int, int] | None, immediate: int | None, payload: memoryview) -> None:
        self.reth = reth  # (address, rkey, bytes) of the whole message; in its first packet only
        self.immediate = immediate
        self.payload = payload  # a view into the input


Body = Write | RcWrite | ControlBody


class Packet:
    """A decoded packet; addresses are the inner ones, 16 bytes each. (A plain class: one is made for every packet.)"""

    __slots__ = (
        "ack_request", "body", "dest_qp", "dscp", "dst", "ecn", "ev", "opcode", "psn", "retransmission", "solicited",
        "src",
    )  # fmt: skip

    def __init__(
        self,
        dscp: int,
        ecn: int,
        src: bytes,
        dst: bytes,
        ev: int,
        opcode: int,
        dest_qp: int,
        psn: int,
        ack_request: bool,
        retransmission: bool,
        solicited: bool,
        body: Body,
    ) -> None:
        self.dscp = dscp  # of the first IPv6 header: what the fabric made of it
        self.ecn = ecn  # likewise
        self.src = src
        self.dst = dst
        self.ev = ev
        self.opcode = opcode
        self.dest_qp = dest_qp
        self.psn = psn
        self.ack_request = ack_request
        self.retransmission = retransmission
        self.solicited = solicited
        self.body = body

    @property
    def trimmed(self) -> bool:
        """Whether a switch has cut the payload off."""
        return self.dscp in TRIMMED_CLASSES


def parse(data: memoryview | bytes, *, udp_port: int = DEFAULT_UDP_PORT) -> Packet:
    """Decode a packet that starts at its first IPv6 header; bytes behind its end (link padding) are ignored.

    Raises WireError, and nothing else whatever the bytes are. A trimmed packet has lost its ICRC and is exempt.
    """
    view = data if isinstance(data, memoryview) else memoryview(data)
    # Their types make compiled code calculate with machine words.
    outer_word: int
    outer_length: int
    inner_word: int
    inner_length: int
    inner_next: int
    hop_limit: int
    source_port: int
    destination_port: int
    udp_length: int
    checksum: int
    opcode: int
    bth_flags: int
    dest_qp: int
    psn_word: int
    if len(view) < _SHORTEST:
        raise WireError("short")
    if view[_NEXT_HEADER_AT] == NEXT_HEADER_UDP:
        inner_at, body_at = 0, _BARE.size
        (
            inner_word, inner_length, inner_next, hop_limit, src, dst,
            source_port, destination_port, udp_length, checksum,
            opcode, bth_flags, dest_qp, psn_word,
        ) = _BARE.unpack_from(view)  # fmt: skip
        outer_word, end = inner_word, IPV6_BYTES + inner_length
    else:
        inner_at, body_at = IPV6_BYTES, _COMMON.size
        if len(view) < body_at + icrc.ICRC_BYTES:
            raise WireError("short")
        (
            outer_word, outer_length, outer_next,
            inner_word, inner_length, inner_next, hop_limit, src, dst,
            source_port, destination_port, udp_length, checksum,
            opcode, bth_flags, dest_qp, psn_word,
        ) = _COMMON.unpack_from(view)  # fmt: skip
        end = IPV6_BYTES + outer_length
        if outer_next != NEXT_HEADER_IPV6:
            raise WireError("next-header")
    if outer_word >> 28 != _IPV6_VERSION or inner_word >> 28 != _IPV6_VERSION:
        raise WireError("version")
    if inner_next != NEXT_HEADER_UDP:
        raise WireError("next-header")
    if destination_port != udp_port:
        raise WireError("port")
    if end > len(view) or inner_at + IPV6_BYTES + inner_length != end or udp_length != inner_length:
        raise WireError("length")
    if end < body_at + icrc.ICRC_BYTES:
        raise WireError("short")
    if bth_flags & headers.BTH_VERSION_MASK:
        raise WireError("version")

    dscp = outer_word >> 22 & 0x3F
    trimmed = dscp in TRIMMED_CLASSES
    if trimmed:
        body_end = end
    else:
        body_end = end - icrc.ICRC_BYTES
        if not icrc.is_intact(view[inner_at:end], inner_word, hop_limit, checksum, dest_qp >> _RESERVED_SHIFT):
            raise WireError("icrc")
        body_end -= bth_flags >> headers.BTH_PAD_SHIFT & headers.BTH_PAD_MASK

    body: Body
    if opcode in headers.WRITE_OPCODES:
        body = _write(view, body_at, body_end, opcode, bool(psn_word & headers.BTH_TIMESTAMP), trimmed)
    elif opcode in headers.RC_WRITE_OPCODES and not trimmed:
        body = _rc_write(view, body_at, body_end, opcode)
    else:
        body = _control(view, body_at, body_end, opcode, trimmed)
    return Packet(
        dscp,
        outer_word >> 20 & 0b11,
        src,
        dst,
        (inner_word & 0xFFFF) << 16 | source_port,
        opcode,
        dest_qp & headers.LOW_24_BITS,
        psn_word & headers.LOW_24_BITS,
        bool(psn_word & headers.BTH_ACK_REQUEST),
        bool(psn_word & headers.BTH_RETRANSMISSION),
        bool(bth_flags & headers.BTH_SOLICITED),
        body,
    )


def _write(data: memoryview, at: int, end: int, opcode: int, timestamped: bool, trimmed: bool) -> Write:
    with_immediate = opcode in headers.IMMEDIATE_OPCODES
    layout = _WRITE_LAYOUTS[2 * timestamped + with_immediate]
    payload_at = at + layout.size
    if payload_at > end:
        raise WireError("short")
    fields = layout.unpack_from(data, at)
    tx_timestamp = None
    if timestamped:
        tx_timestamp = fields[2]
        if fields[3] & headers.TSETH_FTYPE_MASK != headers.TSETH_FTYPE:
            raise WireError("timestamp")
    reth = 4 if timestamped else 2
    return Write(
        fields[0],
        fields[1],
        tx_timestamp,
        fields[reth],
        fields[reth + 1],
        fields[reth + 2],
        fields[reth + 3] if with_immediate else None,
        data[payload_at : payload_at if trimmed else end],
    )


def _rc_write(data: memoryview, at: int, end: int, opcode: int) -> RcWrite:
    with_reth, with_immediate = opcode in headers.RC_FIRST_OPCODES, opcode in headers.RC_IMMEDIATE_OPCODES
    layout = headers.RC_WRITE_HEADERS[with_reth, with_immediate]
    payload_at = at + layout.size
    if payload_at > end:
        raise WireError("short")
    fields = layout.unpack_from(data, at)
    return RcWrite(fields[:3] if with_reth else None, fields[-1] if with_immediate else None, data[payload_at:end])


def _control(data: memoryview, at: int, end: int, opcode: int, trimmed: bool) -> ControlBody:
    kind = headers.CONTROL_BODIES.get(opcode)
    if kind is None or trimmed:
        raise WireError("opcode")
    if at + kind.LAYOUT.size > end:
        raise WireError("short")
    return kind.unpack(data, at)
