"""The headers behind UDP: RoCEv2's (IBTA volume 1, chapter 9) and those that MRC 1.0 puts beside them.

Stack of a WRITE: BTH 12 | METH 4 | [TSETH 4] | RETH 16 | [ImmDt 4] | payload | pad | ICRC 4. An MRC opcode is
0xC0 | the RC opcode; plain RoCE has no METH, and its RETH only in the first packet of a message. The layouts of BTH,
METH, TSETH, RETH, SETH, CC_STATE and NETH follow the OCP MRC 1.0 text as publicly transcribed; those of the endpoint
operations and of the reliability probe are not public, but ours.

Each control body is a dataclass that packs itself and is unpacked by its class; fields are plain numbers in wire units.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final

from agents.wire.icrc import Buffer

ENDPOINT_QP: Final = 2  # endpoint operations go here


class Opcode(IntEnum):
    """BTH opcodes of MRC, and those of plain RoCE RC that the baseline speaks (with a leading RC_ or CNP)."""

    WRITE_FIRST = 0xC6
    WRITE_MIDDLE = 0xC7
    WRITE_LAST = 0xC8
    WRITE_LAST_IMM = 0xC9
    WRITE_ONLY = 0xCA
    WRITE_ONLY_IMM = 0xCB
    TRANSPORT_ACK = 0xD1
    ENDPOINT_REQUEST = 0xD8
    ENDPOINT_RESPONSE = 0xD9
    SACK = 0xDC
    NACK = 0xDD
    RELIABILITY_PROBE = 0xDE
    RC_WRITE_FIRST = 0x06
    RC_WRITE_MIDDLE = 0x07
    RC_WRITE_LAST = 0x08
    RC_WRITE_LAST_IMM = 0x09
    RC_WRITE_ONLY = 0x0A
    RC_WRITE_ONLY_IMM = 0x0B
    RC_ACK = 0x11
    CNP = 0x81


WRITE_OPCODES: Final = frozenset(range(Opcode.WRITE_FIRST, Opcode.WRITE_ONLY_IMM + 1))
IMMEDIATE_OPCODES: Final = frozenset({Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY_IMM})
RC_WRITE_OPCODES: Final = frozenset(range(Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_ONLY_IMM + 1))
RC_FIRST_OPCODES: Final = frozenset({Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_ONLY, Opcode.RC_WRITE_ONLY_IMM})
RC_LAST_OPCODES: Final = frozenset(
    {Opcode.RC_WRITE_LAST, Opcode.RC_WRITE_LAST_IMM, Opcode.RC_WRITE_ONLY, Opcode.RC_WRITE_ONLY_IMM}
)
RC_IMMEDIATE_OPCODES: Final = frozenset({Opcode.RC_WRITE_LAST_IMM, Opcode.RC_WRITE_ONLY_IMM})
_RC_MASK: Final = 0x3F

# (first packet of its message, last packet, with immediate): only a last packet carries the immediate.
_WRITE_OPCODE: Final[dict[tuple[bool, bool, bool], int]] = {
    (True, False, False): Opcode.WRITE_FIRST,
    (True, False, True): Opcode.WRITE_FIRST,
    (False, False, False): Opcode.WRITE_MIDDLE,
    (False, False, True): Opcode.WRITE_MIDDLE,
    (False, True, False): Opcode.WRITE_LAST,
    (False, True, True): Opcode.WRITE_LAST_IMM,
    (True, True, False): Opcode.WRITE_ONLY,
    (True, True, True): Opcode.WRITE_ONLY_IMM,
}


def write_opcode(first: bool, last: bool, immediate: bool) -> int:
    """The opcode of a packet of a WRITE, by its place in the message and whether the message has an immediate."""
    return _WRITE_OPCODE[first, last, immediate]


def rc_opcode(opcode: int) -> int:
    """The plain RoCE opcode of the packet that MRC gives `opcode`."""
    return opcode & _RC_MASK


# BTH: opcode | SE 1, M 1, pad 2, tver 4 | P_Key 16 | reserved 8, DestQP 24 | A 1, R 1, rtx 1, ts 1, reserved 4, PSN 24
BTH = struct.Struct("!BBHII")
BTH_SOLICITED: Final = 0x80
BTH_PAD_SHIFT: Final = 4
BTH_PAD_MASK: Final = 0b11
BTH_VERSION_MASK: Final = 0x0F
BTH_ACK_REQUEST: Final = 1 << 31
BTH_RETRANSMISSION: Final = 1 << 29
BTH_BECN: Final = 0x40  # in the reserved byte: set in a CNP
BTH_TIMESTAMP: Final = 1 << 28  # a TSETH follows the METH
DEFAULT_PKEY: Final = 0xFFFF
LOW_24_BITS: Final = 0xFFFFFF

METH = struct.Struct("!HH")  # RQMSN 16 (counts writes with immediate) | MSN 16
TSETH = struct.Struct("!HH")  # tx timestamp 16 | tsr 1, reserved 11, ftype 4
TSETH_FTYPE_MASK: Final = 0xF
TSETH_FTYPE: Final = 1
TIMESTAMP_TICK_NS: Final = 128  # times the time dilation on the kernel lab
# RETH: virtual address 64 (of this packet's payload) | rkey 32 | length 32 (of the whole message)
RETH = struct.Struct("!QII")
IMMDT = struct.Struct("!I")

# METH .. ImmDt in one go, by (with TSETH, with ImmDt)
WRITE_HEADERS: Final[dict[tuple[bool, bool], struct.Struct]] = {
    (False, False): struct.Struct("!HHQII"),
    (False, True): struct.Struct("!HHQIII"),
    (True, False): struct.Struct("!HHHHQII"),
    (True, True): struct.Struct("!HHHHQIII"),
}
# The same of plain RoCE, by (with RETH, with ImmDt)
RC_WRITE_HEADERS: Final[dict[tuple[bool, bool], struct.Struct]] = {
    (False, False): struct.Struct("!"),
    (False, True): IMMDT,
    (True, False): RETH,
    (True, True): struct.Struct("!QIII"),
}


class EcnEcho(IntEnum):
    """SETH.M: what the receiver tells the sender's load balancer about an EV."""

    NONE = 0
    SKIP_ONCE = 1  # a CE mark was seen
    ALWAYS_SKIP = 2


class NackReason(IntEnum):
    """NETH reasons."""

    TRIMMED = 0x01
    TRIMMED_LASTHOP = 0x02
    NO_BITMAP = 0x06
    NO_PKT_BUFFER = 0x07
    NO_RESOURCE = 0x0A
    PSN_OOR_WINDOW = 0x0B
    UNEXP_EVENT = 0x19  # fatal


class EndpointOperation(IntEnum):
    """What an endpoint request asks for."""

    PORT_STATUS_UPDATE = 1
    EV_PROBE = 2
    SELF_PROBE = 3  # Clustermapper's (this project's number): to the sender itself, who takes it back


# AETH syndromes (IBTA 9.7.5.2): 31 = no credit information
AETH_ACK: Final = 0x1F
AETH_NAK_SEQUENCE_ERROR: Final = 0x60
AETH_NAK_INVALID_REQUEST: Final = 0x61
AETH_NAK_REMOTE_ACCESS_ERROR: Final = 0x62

_M_SHIFT, _M_MASK, _PROBE_REPLY = 5, 0b11, 1 << 1  # in the first 16 bits of SETH: type 4, nh 5, M 2, r 3, pr 1, r 1
_MPR_SHIFT: Final = 7  # MPR counts in 128 PSNs
_S16_SIGN, _U16_MASK = 0x8000, 0xFFFF


class Sack:
    """SETH + CC_STATE, 36 bytes: which packets have arrived, as seen from the packet that triggered it.

    A plain class: nearly every turn of an agent makes one. Equal are those of equal bytes.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("!HHIHHIBBhQHHI")

    __slots__ = (
        "ack_psn_offset", "bitmap", "cack", "cc_flags", "cc_type", "dpdcid", "ecn_echo", "ev", "mpr", "ooo_count",
        "ports_down", "probe_id", "rcv_cwnd_pen", "rcvd_bytes_256", "restore_cwnd", "sack_offset", "spdcid",
        "tx_timestamp",
    )  # fmt: skip

    def __init__(
        self,
        ev: int,
        cack: int,
        bitmap: int = 0,
        sack_offset: int = 0,
        ack_psn_offset: int = 0,
        probe_id: int | None = None,
        ecn_echo: int = 0,
        ports_down: int = 0,
        spdcid: int = 0,
        dpdcid: int = 0,
        cc_type: int = 0,
        cc_flags: int = 0,
        mpr: int = 0,
        tx_timestamp: int = 0,
        ooo_count: int = 0,
        restore_cwnd: bool = False,
        rcv_cwnd_pen: int = 0,
        rcvd_bytes_256: int = 0,
    ) -> None:
        self.ev = ev  # echo of the EV of the packet that triggered this SACK
        self.cack = cack  # cumulative acknowledgement: this PSN and all before it have arrived
        self.bitmap = bitmap  # bit i: PSN cack + sack_offset + i has arrived
        self.sack_offset = sack_offset  # signed 16
        self.ack_psn_offset = ack_psn_offset  # signed 16: the PSN that triggered this SACK, from cack; not in a reply
        self.probe_id = probe_id  # the reliability probe that this SACK answers
        self.ecn_echo = ecn_echo  # EcnEcho
        self.ports_down = ports_down  # bit p: plane p is down at the sender of this SACK (byte 12; this project's)
        self.spdcid = spdcid
        self.dpdcid = dpdcid
        self.cc_type = cc_type  # 0 = NSCC
        self.cc_flags = cc_flags
        self.mpr = mpr  # PSNs that the receiver can track, a multiple of 128 up to 32640; 0 = not dynamic
        self.tx_timestamp = tx_timestamp  # echo of TSETH, in ticks
        self.ooo_count = ooo_count  # packets that arrived beyond cack
        self.restore_cwnd = restore_cwnd
        self.rcv_cwnd_pen = rcv_cwnd_pen  # cwnd shrinks by this / 128
        self.rcvd_bytes_256 = rcvd_bytes_256  # bytes received, in units of 256

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sack) and self.pack() == other.pack()

    def pack(self) -> bytes:
        """The 36 bytes. Raises struct.error when a number does not fit."""
        probe_id = self.probe_id
        return self.LAYOUT.pack(
            self.ecn_echo << _M_SHIFT | (0 if probe_id is None else _PROBE_REPLY),
            self.ack_psn_offset & _U16_MASK if probe_id is None else probe_id,
            self.ev,
            self.spdcid,
            self.dpdcid,
            self.ports_down << 24 | self.cack,
            self.cc_type << 4 | self.cc_flags,
            self.mpr >> _MPR_SHIFT,
            self.sack_offset,
            self.bitmap,
            self.tx_timestamp,
            self.ooo_count,
            self.restore_cwnd << 31 | self.rcv_cwnd_pen << 24 | self.rcvd_bytes_256,
        )

    @classmethod
    def unpack(cls, data: Buffer, offset: int) -> Sack:
        """The SACK at `offset`, where 36 bytes have to be."""
        flags: int
        psn_or_probe: int
        ports_cack: int
        penalty: int
        flags, psn_or_probe, ev, spdcid, dpdcid, ports_cack, cc, mpr, sack_offset, bitmap, ts, ooo, penalty = (
            cls.LAYOUT.unpack_from(data, offset)
        )
        is_reply = flags & _PROBE_REPLY
        return Sack(
            ev,
            ports_cack & LOW_24_BITS,
            bitmap,
            sack_offset,
            0 if is_reply else (psn_or_probe ^ _S16_SIGN) - _S16_SIGN,
            psn_or_probe if is_reply else None,
            flags >> _M_SHIFT & _M_MASK,
            ports_cack >> 24,
            spdcid,
            dpdcid,
            cc >> 4,
            cc & 0xF,
            mpr << _MPR_SHIFT,
            ts,
            ooo & 0x7FFF,
            bool(penalty >> 31),
            penalty >> 24 & 0x7F,
            penalty & LOW_24_BITS,
        )


@dataclass(slots=True)
class Nack:
    """NETH, 20 bytes: this PSN was not taken, and why."""

    reason: int  # NackReason
    psn: int
    ev: int  # echo
    vendor: int = 0
    cc_type: int = 0  # 2 bits
    tx_timestamp: int = 0  # echo of TSETH, in ticks

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("!2xBBI4xIBxH")

    def pack(self) -> bytes:
        """The 20 bytes. Raises struct.error when a number does not fit."""
        return self.LAYOUT.pack(self.reason, self.vendor, self.ev, self.psn, self.cc_type << 6, self.tx_timestamp)

    @classmethod
    def unpack(cls, data: Buffer, offset: int) -> Nack:
        """The NACK at `offset`, where 20 bytes have to be."""
        reason, vendor, ev, psn, cc, tx_timestamp = cls.LAYOUT.unpack_from(data, offset)
        return cls(reason, psn & LOW_24_BITS, ev, vendor, cc >> 6, tx_timestamp)


@dataclass(slots=True)
class TransportAck:
    """AETH, 4 bytes: messages up to `msn` are complete at the receiver; on plain RoCE also the NAKs, by syndrome."""

    msn: int  # 24 bits
    syndrome: int = AETH_ACK

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("!I")

    def pack(self) -> bytes:
        """The 4 bytes. Raises struct.error when a number does not fit."""
        return self.LAYOUT.pack(self.syndrome << 24 | self.msn)

    @classmethod
    def unpack(cls, data: Buffer, offset: int) -> TransportAck:
        """The AETH at `offset`, where 4 bytes have to be."""
        (word,) = cls.LAYOUT.unpack_from(data, offset)
        return cls(word & LOW_24_BITS, word >> 24)


@dataclass(slots=True)
class _EndpointBody:
    """operation 8 | M 2, reserved 6 | request id 16 | EV 32 | port mask 32: 12 bytes."""

    operation: int  # EndpointOperation
    request_id: int  # 16 bits; the response repeats it
    ev: int = 0  # EV Probe: the EV probed
    ports_down: int = 0  # Port Status Update: bit p: plane p is down at the requester; a response repeats it
    ecn_echo: int = EcnEcho.NONE  # responses: what the request met on its way

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("!BBHII")

    def pack(self) -> bytes:
        """The 12 bytes. Raises struct.error when a number does not fit."""
        return self.LAYOUT.pack(self.operation, self.ecn_echo << 6, self.request_id, self.ev, self.ports_down)


@dataclass(slots=True)
class EndpointRequest(_EndpointBody):
    """An endpoint operation, to ENDPOINT_QP of the peer."""

    @classmethod
    def unpack(cls, data: Buffer, offset: int) -> EndpointRequest:
        """The request at `offset`, where 12 bytes have to be."""
        operation, flags, request_id, ev, ports_down = cls.LAYOUT.unpack_from(data, offset)
        return cls(operation, request_id, ev, ports_down, flags >> 6)


@dataclass(slots=True)
class EndpointResponse(_EndpointBody):
    """The answer to an endpoint operation, on the control class."""

    @classmethod
    def unpack(cls, data: Buffer, offset: int) -> EndpointResponse:
        """The response at `offset`, where 12 bytes have to be."""
        operation, flags, request_id, ev, ports_down = cls.LAYOUT.unpack_from(data, offset)
        return cls(operation, request_id, ev, ports_down, flags >> 6)


@dataclass(slots=True)
class ReliabilityProbe:
    """probe id 16 | tx timestamp 16, on the data class: asks for a SACK around the PSN in the BTH."""

    probe_id: int
    tx_timestamp: int = 0  # in ticks

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("!HH")

    def pack(self) -> bytes:
        """The 4 bytes. Raises struct.error when a number does not fit."""
        return self.LAYOUT.pack(self.probe_id, self.tx_timestamp)

    @classmethod
    def unpack(cls, data: Buffer, offset: int) -> ReliabilityProbe:
        """The probe at `offset`, where 4 bytes have to be."""
        probe_id, tx_timestamp = cls.LAYOUT.unpack_from(data, offset)
        return cls(probe_id, tx_timestamp)


@dataclass(slots=True)
class Cnp:
    """Congestion notification packet (RoCEv2, annex A17): 16 reserved bytes. The BTH says which queue pair is meant."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("!16x")

    def pack(self) -> bytes:
        """The 16 bytes."""
        return self.LAYOUT.pack()

    @classmethod
    def unpack(cls, data: Buffer, offset: int) -> Cnp:
        """The CNP at `offset`; what the reserved bytes hold has no meaning."""
        return cls()


ControlBody = Cnp | Sack | Nack | TransportAck | EndpointRequest | EndpointResponse | ReliabilityProbe

# The table that `packet.parse` goes by.
CONTROL_BODIES: Final[dict[int, type[ControlBody]]] = {
    Opcode.TRANSPORT_ACK: TransportAck,
    Opcode.ENDPOINT_REQUEST: EndpointRequest,
    Opcode.ENDPOINT_RESPONSE: EndpointResponse,
    Opcode.SACK: Sack,
    Opcode.NACK: Nack,
    Opcode.RELIABILITY_PROBE: ReliabilityProbe,
    Opcode.RC_ACK: TransportAck,
    Opcode.CNP: Cnp,
}
