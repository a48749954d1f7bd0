"""Bytes -> Packet: decodes what a NIC port received, from the outer IPv6 header on.

Follows the packet stack of the MRC paper (section 3): outer IPv6 | inner IPv6 | UDP | BTH | ... | ICRC. `parse` checks
every length, every next header and the ICRC, and answers whatever is not a whole, intact MRC packet with `WireError`.
Whether a packet makes sense (rkey, window, state) is the transport's to judge.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from agents.wire import headers, icrc
from agents.wire.dscp import TRIMMED_CLASSES
from agents.wire.headers import ControlBody

IPV6_BYTES = 40
UDP_BYTES = 8
NEXT_HEADER_UDP = 17
NEXT_HEADER_IPV6 = 41
DEFAULT_UDP_PORT = 4791  # a setting: one place of the MRC text is said to print 4971

# Outer IPv6, inner IPv6, UDP and BTH in one unpack: first word, payload length, next header, (hop limit); addresses
# of the inner one; ports, length; BTH.
_COMMON = struct.Struct("!IHBx32x IHBx16s16s HHH2x BB2xII")
_BODY_AT = _COMMON.size
_INNER_AT = IPV6_BYTES
_SHORTEST = _BODY_AT + icrc.ICRC_BYTES
_CRC_FIELD = struct.Struct("<I")
_IPV6_VERSION = 6


class WireError(ValueError):
    """The bytes are not a packet that this end takes. `reason` is one of REASONS, to be counted by."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# reason -> what it says
REASONS = {
    "short": "fewer bytes than the headers need",
    "version": "an IP version or BTH version that is not ours",
    "next-header": "not IPv6 in IPv6 with UDP inside",
    "port": "another UDP destination port",
    "length": "the length fields contradict each other or the data",
    "opcode": "an opcode that MRC does not know, or one that cannot have been trimmed",
    "timestamp": "a TSETH of unknown type",
    "icrc": "the ICRC is wrong",
}


@dataclass(slots=True)
class Write:
    """Body of a WRITE packet."""

    rqmsn: int
    msn: int
    tx_timestamp: int | None  # ticks, from TSETH
    address: int  # where this packet's payload goes
    rkey: int
    length: int  # of the whole message, in bytes
    immediate: int | None
    payload: memoryview  # a view into the input; empty when trimmed


Body = Write | ControlBody


@dataclass(slots=True)
class Packet:
    """A decoded packet; addresses are the inner ones, 16 bytes each."""

    dscp: int  # of the outer header: what the fabric made of it
    ecn: int  # likewise
    src: bytes
    dst: bytes
    ev: int
    opcode: int
    dest_qp: int
    psn: int
    ack_request: bool
    retransmission: bool
    solicited: bool
    body: Body

    @property
    def trimmed(self) -> bool:
        """Whether a switch has cut the payload off."""
        return self.dscp in TRIMMED_CLASSES


def parse(data: memoryview | bytes, *, udp_port: int = DEFAULT_UDP_PORT) -> Packet:
    """Decode a packet that starts at the outer IPv6 header; bytes behind its end (link padding) are ignored.

    Raises WireError, and nothing else whatever the bytes are. A trimmed packet has lost its ICRC and is exempt.
    """
    view = memoryview(data)
    if len(view) < _SHORTEST:
        raise WireError("short")
    (
        outer_word, outer_length, outer_next,
        inner_word, inner_length, inner_next, src, dst,
        source_port, destination_port, udp_length,
        opcode, bth_flags, dest_qp, psn_word,
    ) = _COMMON.unpack_from(view)  # fmt: skip
    if outer_word >> 28 != _IPV6_VERSION or inner_word >> 28 != _IPV6_VERSION:
        raise WireError("version")
    if outer_next != NEXT_HEADER_IPV6 or inner_next != NEXT_HEADER_UDP:
        raise WireError("next-header")
    if destination_port != udp_port:
        raise WireError("port")
    end = IPV6_BYTES + outer_length
    if end > len(view) or inner_length + IPV6_BYTES != outer_length or udp_length != inner_length:
        raise WireError("length")
    if end < _SHORTEST:
        raise WireError("short")
    if bth_flags & headers.BTH_VERSION_MASK:
        raise WireError("version")

    dscp = outer_word >> 22 & 0x3F
    trimmed = dscp in TRIMMED_CLASSES
    if trimmed:
        body_end = end
    else:
        body_end = end - icrc.ICRC_BYTES
        if icrc.value(view[_INNER_AT:body_end]) != _CRC_FIELD.unpack_from(view, body_end)[0]:
            raise WireError("icrc")
        body_end -= bth_flags >> headers.BTH_PAD_SHIFT & headers.BTH_PAD_MASK

    body: Body
    if opcode in headers.WRITE_OPCODES:
        body = _write(view, body_end, opcode, bool(psn_word & headers.BTH_TIMESTAMP), trimmed)
    else:
        body = _control(view, body_end, opcode, trimmed)
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


def _write(data: memoryview, end: int, opcode: int, timestamped: bool, trimmed: bool) -> Write:
    with_immediate = opcode in headers.IMMEDIATE_OPCODES
    layout = headers.WRITE_HEADERS[timestamped, with_immediate]
    payload_at = _BODY_AT + layout.size
    if payload_at > end:
        raise WireError("short")
    fields = layout.unpack_from(data, _BODY_AT)
    tx_timestamp = None
    if timestamped:
        tx_timestamp = fields[2]
        if fields[3] & headers.TSETH_FTYPE_MASK != headers.TSETH_FTYPE:
            raise WireError("timestamp")
    at = 4 if timestamped else 2
    return Write(
        fields[0],
        fields[1],
        tx_timestamp,
        fields[at],
        fields[at + 1],
        fields[at + 2],
        fields[at + 3] if with_immediate else None,
        data[payload_at : payload_at if trimmed else end],
    )


def _control(data: memoryview, end: int, opcode: int, trimmed: bool) -> ControlBody:
    kind = headers.CONTROL_BODIES.get(opcode)
    if kind is None or trimmed:
        raise WireError("opcode")
    if _BODY_AT + kind.LAYOUT.size > end:
        raise WireError("short")
    return kind.unpack(data, _BODY_AT)
