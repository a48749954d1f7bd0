"""Plain RoCE packets, with and without the outer header: round trips, and scapy as the second opinion."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import AETH, BTH, cnp
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from agents.wire import dscp, frame, headers
from agents.wire.headers import Cnp, Opcode, TransportAck
from agents.wire.packet import IPV6_BYTES, RcWrite, WireError, Write, parse
from tests.told import told
from tests.unit.wire.packets import DST, EV, SRC, USIDS, bits, path, write_bytes

RETH = (0x1122334455667788, 0x99AABBCC, 1 << 20)
ways = st.sampled_from([USIDS, None])


def place(opcode: int) -> dict[str, Any]:
    """What a packet with this opcode has to carry."""
    return {
        "opcode": opcode,
        "reth": RETH if opcode in headers.RC_FIRST_OPCODES else None,
        "immediate": 0xDEADBEEF if opcode in headers.RC_IMMEDIATE_OPCODES else None,
    }


def rc_bytes(usids: tuple[int, ...] | None, opcode: int, **changes: Any) -> bytes:
    fields = {"dscp": dscp.NO_TRIM, "dest_qp": 0x123456, "psn": 0xABCDEF, "payload": b"abcdef", **place(opcode)}
    return b"".join(frame.rc_write(path(usids=usids), **fields | changes))


def control_bytes(usids: tuple[int, ...] | None, opcode: int, body: headers.ControlBody) -> bytes:
    return b"".join(frame.control(path(usids=usids), dest_qp=77, psn=5, opcode=opcode, body=body))


@given(
    ways, st.sampled_from(sorted(headers.RC_WRITE_OPCODES)), st.binary(max_size=200), bits(24), bits(24), st.booleans()
)
def test_a_write_comes_back_from_its_bytes(
    usids: tuple[int, ...] | None, opcode: int, payload: bytes, dest_qp: int, psn: int, ask: bool
) -> None:
    decoded = parse(rc_bytes(usids, opcode, payload=payload, dest_qp=dest_qp, psn=psn, ack_request=ask))
    body = decoded.body
    assert isinstance(body, RcWrite)
    assert (decoded.src, decoded.dst, decoded.ev, decoded.opcode, decoded.ecn) == (SRC, DST, EV, opcode, dscp.ECT0)
    assert (decoded.dest_qp, decoded.psn, decoded.ack_request) == (dest_qp, psn, ask)
    assert {"opcode": opcode, "reth": body.reth, "immediate": body.immediate} == place(opcode)
    assert bytes(body.payload) == payload


@given(ways, bits(24), bits(8))
def test_an_ack_and_a_cnp_come_back_from_their_bytes(usids: tuple[int, ...] | None, msn: int, syndrome: int) -> None:
    for opcode, body in ((Opcode.RC_ACK, TransportAck(msn, syndrome)), (Opcode.CNP, Cnp())):
        decoded = parse(control_bytes(usids, opcode, body))
        assert (decoded.opcode, decoded.body, decoded.dest_qp, decoded.psn) == (opcode, body, 77, 5)
        assert (decoded.dscp, decoded.ecn) == (dscp.CONTROL, dscp.NOT_ECT)


def test_without_the_outer_header_the_rest_is_the_same() -> None:
    for opcode in headers.RC_WRITE_OPCODES:
        assert rc_bytes(None, opcode) == rc_bytes(USIDS, opcode)[IPV6_BYTES:]
    assert write_bytes(path(usids=None)) == write_bytes()[IPV6_BYTES:]
    assert isinstance(parse(write_bytes(path(usids=None))).body, Write), "MRC goes over a fabric that hashes as well"


def scapy_packet(size: int, traffic: int, bth: Any) -> bytes:
    inner = IPv6(tc=traffic, fl=EV >> 16, hlim=64, src="fd6d:7263::1", dst="fd6d:7263::6")
    udp = UDP(sport=EV & 0xFFFF, dport=4791, chksum=0, len=8 + size)
    return bytes(inner / udp / bth)


@pytest.mark.parametrize("opcode", sorted(headers.RC_WRITE_OPCODES))
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4096])
def test_scapy_builds_the_same_write(opcode: int, size: int) -> None:
    payload = random.Random(size).randbytes(size)
    carried = place(opcode)
    behind = headers.RETH.pack(*RETH) if carried["reth"] else b""
    behind += headers.IMMDT.pack(carried["immediate"]) if carried["immediate"] is not None else b""
    behind += payload + bytes(-size % 4)
    bth = BTH(opcode=opcode, padcount=-size % 4, dqpn=0x123456, ackreq=1, psn=0xABCDEF) / Raw(behind)
    expected = scapy_packet(16 + len(behind), dscp.traffic_class(dscp.NO_TRIM), bth)
    assert rc_bytes(None, opcode, payload=payload, ack_request=True) == expected


def test_scapy_builds_the_same_ack_and_cnp() -> None:
    traffic = dscp.traffic_class(dscp.CONTROL)
    ack = BTH(opcode=Opcode.RC_ACK, dqpn=77, psn=5) / AETH(syndrome=0x60, msn=9)
    assert control_bytes(None, Opcode.RC_ACK, TransportAck(9, 0x60)) == scapy_packet(20, traffic, ack)
    notification = cnp(77)
    notification.psn = 5
    assert control_bytes(None, Opcode.CNP, Cnp()) == scapy_packet(32, traffic, notification)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (rc_bytes(None, Opcode.RC_WRITE_ONLY)[:50], "short"),
        (rc_bytes(None, Opcode.RC_WRITE_ONLY)[:-1], "length"),
        (rc_bytes(None, Opcode.RC_WRITE_ONLY)[:-1] + b"x", "icrc"),
        (rc_bytes(None, Opcode.RC_WRITE_ONLY, reth=None, payload=bytes(8)), "short"),
        (rc_bytes(None, Opcode.RC_WRITE_MIDDLE, dscp=dscp.TRIMMED), "opcode"),
        (control_bytes(None, Opcode.CNP, TransportAck(1)), "short"),
    ],
)
def test_each_reason(data: bytes, reason: str) -> None:
    with pytest.raises(WireError) as caught:
        parse(data)
    assert caught.value.reason == reason


def test_a_hundred_thousand_spoiled_bytes_give_wire_errors_and_never_another_payload() -> None:
    """The mark of congestion and the hop limit may change under way; nothing that the ICRC covers may."""
    rng = random.Random(9)
    originals = [rc_bytes(None, opcode) for opcode in sorted(headers.RC_WRITE_OPCODES)]
    expected = [told(parse(data).body) for data in originals]
    refused = 0
    for round_ in range(100_000):
        which = round_ % len(originals)
        data = bytearray(originals[which])
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            decoded = parse(data)
        except WireError:
            refused += 1
        else:
            assert told(decoded.body) == expected[which]
    assert refused > 70_000
