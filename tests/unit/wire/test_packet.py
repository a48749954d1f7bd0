"""Frames and parsing: round trips, scapy as the second opinion, and no input that does anything but WireError."""

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6

from agents.wire import address, dscp, ev, frame, headers, packet
from agents.wire.headers import Opcode
from agents.wire.packet import WireError, parse
from tests.told import told
from tests.unit.wire.packets import DST, EV, SRC, USIDS, bits, bodies, icrc_bytes, path, write_bytes

BODY_AT, ICRC_BYTES = 100, 4
OPCODE_OF = {kind: opcode for opcode, kind in headers.CONTROL_BODIES.items()}


@given(
    place=st.tuples(st.booleans(), st.booleans()),
    payload=st.binary(max_size=300),
    immediate=st.none() | bits(32),
    tx_timestamp=st.none() | bits(16),
    fields=st.fixed_dictionaries(
        {
            "dscp": st.sampled_from([dscp.NO_TRIM, dscp.TRIMMABLE, dscp.TRIMMABLE_RETX]),
            "dest_qp": bits(24),
            "psn": bits(24),
            "msn": bits(16),
            "rqmsn": bits(16),
            "address": bits(64),
            "rkey": bits(32),
            "length": bits(32),
            "ack_request": st.booleans(),
            "retransmission": st.booleans(),
        }
    ),
    route=st.tuples(st.integers(0, 7), st.integers(0, 255), st.integers(0, ev.MAX_SPARE)),
    udp_port=bits(16),
)
def test_a_write_comes_back_from_its_bytes(
    place: tuple[bool, bool],
    payload: bytes,
    immediate: int | None,
    tx_timestamp: int | None,
    fields: dict[str, Any],
    route: tuple[int, int, int],
    udp_port: int,
) -> None:
    first, last = place
    carried = immediate if last else None
    over = path(ev=ev.make(*route), udp_port=udp_port)
    opcode = headers.write_opcode(first, last, immediate is not None)
    buffers = frame.write(over, opcode=opcode, payload=payload, immediate=carried, tx_timestamp=tx_timestamp, **fields)
    assert buffers[1] is payload, "the payload is handed on, not copied"

    decoded = parse(b"".join(buffers), udp_port=udp_port)

    body = decoded.body
    assert isinstance(body, packet.Write)
    assert (decoded.src, decoded.dst, decoded.ev, decoded.opcode) == (SRC, DST, ev.make(*route), opcode)
    assert (decoded.ecn, decoded.trimmed, decoded.solicited) == (dscp.ECT0, False, False)
    assert (bytes(body.payload), body.immediate, body.tx_timestamp) == (payload, carried, tx_timestamp)
    found = {name: getattr(decoded if hasattr(decoded, name) else body, name) for name in fields}
    assert found == fields


@given(bodies, bits(24), bits(24), st.sampled_from([dscp.CONTROL, dscp.NO_TRIM]))
def test_a_control_packet_comes_back_from_its_bytes(
    body: headers.ControlBody, dest_qp: int, psn: int, traffic: int
) -> None:
    opcode = OPCODE_OF[type(body)]
    decoded = parse(b"".join(frame.control(path(), dest_qp=dest_qp, psn=psn, opcode=opcode, body=body, dscp=traffic)))
    assert told(decoded.body) == told(body)
    assert (decoded.opcode, decoded.dest_qp, decoded.psn, decoded.dscp) == (opcode, dest_qp, psn, traffic)
    assert decoded.ecn == (dscp.NOT_ECT if traffic == dscp.CONTROL else dscp.ECT0), "control cannot be marked"


@pytest.mark.parametrize("size", [0, 1, 2, 3, 64, 4096])
def test_scapy_reads_the_same_packet_and_builds_the_same_bytes(size: int) -> None:
    data = write_bytes(payload=random.Random(size).randbytes(size), ack_request=True)
    outer = IPv6(data)
    inner = outer.payload
    assert (outer.nh, outer.plen, outer.tc) == (41, len(data) - 40, dscp.traffic_class(dscp.NO_TRIM))
    assert outer.dst == "fcbb:bb00:4800:5003:4801:5801::"
    assert (outer.src, inner.src, inner.dst) == ("fd6d:7263::1", "fd6d:7263::1", "fd6d:7263::6")
    assert (inner.nh, inner.plen, inner.tc, inner.fl) == (17, len(data) - 80, outer.tc, EV >> 16)
    assert outer.fl == inner.fl
    assert (inner[UDP].sport, inner[UDP].dport) == (EV & 0xFFFF, 4791)
    assert (inner[UDP].len, inner[UDP].chksum) == (len(data) - 80, 0)
    bth = inner[BTH]
    assert (bth.opcode, bth.dqpn, bth.ackreq, bth.psn) == (Opcode.WRITE_MIDDLE, 0x123456, 1, 0xABCDEF)
    assert (bth.padcount, bth.pkey, bth.version, bth.fecn, bth.becn) == (-size % 4, 0xFFFF, 0, 0, 0)
    assert bytes(outer.copy()) == data
    bth.icrc = None  # scapy computes it anew
    outer.clear_cache()
    bth.raw_packet_cache = inner[UDP].raw_packet_cache = inner.raw_packet_cache = outer.raw_packet_cache = None
    assert bytes(outer) == data


def test_packets_of_one_template_do_not_remember_one_another() -> None:
    """Sizes and classes come and go more often than the template keeps them."""
    over = path()
    rng = random.Random(3)
    for _ in range(300):
        fields = {"payload": rng.randbytes(rng.randrange(90)), "dscp": rng.choice((dscp.NO_TRIM, dscp.TRIMMABLE))}
        assert write_bytes(over, **fields) == write_bytes(path(), **fields)


def test_the_payload_is_a_view_into_the_input() -> None:
    data = bytearray(write_bytes())
    body = parse(memoryview(data)).body
    assert isinstance(body, packet.Write)
    data[120] ^= 0xFF
    assert body.payload[0] == data[120]


def test_link_padding_behind_the_packet_is_ignored() -> None:
    data = write_bytes()
    assert told(parse(data + b"\xee" * 9).body) == told(parse(data).body)


def test_what_the_fabric_may_change_does_not_hurt_and_is_reported() -> None:
    data = bytearray(write_bytes())
    traffic = dscp.traffic_class(dscp.NO_TRIM, ecn=dscp.CE)
    data[0] = 0x60 | traffic >> 4
    data[1] = traffic << 4 & 0xF0 | data[1] & 0x0F
    data[7] = 60  # outer hop limit
    data[24:40] = address.sid_address(address.DEFAULT_BLOCK, USIDS[-1])
    assert parse(bytes(data)).ecn == dscp.CE


def trim(data: bytes, traffic: int, keep: int = 20) -> bytes:
    """As a switch trims: headers up to RETH stay, lengths are mended, the class changes."""
    cut = bytearray(data[: BODY_AT + keep])
    cut[0] = 0x60 | traffic >> 2
    cut[1] = traffic << 6 & 0xC0 | cut[1] & 0x3F
    for at, size in ((4, len(cut) - 40), (44, len(cut) - 80), (84, len(cut) - 80)):
        struct.pack_into("!H", cut, at, size)
    return bytes(cut)


@pytest.mark.parametrize("traffic", sorted(dscp.TRIMMED_CLASSES))
@pytest.mark.parametrize("keep", [20, 22, 40])
def test_a_trimmed_packet_needs_no_icrc_and_has_no_payload(traffic: int, keep: int) -> None:
    decoded = parse(trim(write_bytes(payload=bytes(range(64))), traffic, keep))
    body = decoded.body
    assert isinstance(body, packet.Write)
    assert decoded.trimmed and decoded.psn == 0xABCDEF
    assert (body.rkey, body.length, len(body.payload)) == (0x99AABBCC, 1 << 20, 0)


def test_only_data_can_have_been_trimmed() -> None:
    body = headers.Sack(ev=1, cack=2)
    sack = b"".join(frame.control(path(), dest_qp=1, psn=2, opcode=Opcode.SACK, body=body))
    with pytest.raises(WireError) as caught:
        parse(trim(sack, dscp.TRIMMED, keep=36))
    assert caught.value.reason == "opcode"


def resealed(data: bytes, at: int, value: int) -> bytes:
    """With one byte changed and the ICRC made right again."""
    changed = bytearray(data)
    changed[at] = value
    changed[-ICRC_BYTES:] = icrc_bytes(memoryview(changed)[40:-ICRC_BYTES])
    return bytes(changed)


def test_the_solicited_bit() -> None:
    assert parse(resealed(write_bytes(), 89, headers.BTH_SOLICITED)).solicited


def poke(at: int, value: int) -> bytes:
    data = bytearray(write_bytes())
    data[at] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "short"),
        (write_bytes()[: BODY_AT + ICRC_BYTES - 1], "short"),
        (write_bytes()[:-1], "length"),
        (poke(0, 0x45), "version"),
        (poke(40, 0x45), "version"),
        (poke(89, 0x01), "version"),
        (poke(6, 43), "next-header"),
        (poke(46, 6), "next-header"),
        (poke(83, 0), "port"),
        (poke(5, 0), "length"),
        (poke(45, 0), "length"),
        (poke(85, 0), "length"),
        (poke(130, 0), "icrc"),
        (poke(90, 0), "icrc"),
        (write_bytes(opcode=0x04), "opcode"),
        (trim(write_bytes(), dscp.TRIMMED, keep=19), "short"),
        (resealed(write_bytes(payload=b""), 89, 3 << headers.BTH_PAD_SHIFT), "short"),
        (resealed(write_bytes(payload=b""), 88, Opcode.SACK), "short"),
    ],
)
def test_each_reason(data: bytes, reason: str) -> None:
    with pytest.raises(WireError) as caught:
        parse(data)
    assert caught.value.reason == reason
    assert reason in packet.REASONS


def test_a_tseth_of_another_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "TSETH_FTYPE", 2)
    data = write_bytes(tx_timestamp=5)
    monkeypatch.undo()
    with pytest.raises(WireError) as caught:
        parse(data)
    assert caught.value.reason == "timestamp"


@given(st.binary(max_size=250))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        parse(data)


def test_a_hundred_thousand_mutilated_packets_give_wire_errors_and_never_another_payload() -> None:
    """Bits flipped, bytes overwritten, cut and grown: refused, or what the ICRC covers is untouched."""
    rng = random.Random(20260)
    bodies_of_all_kinds: list[headers.ControlBody] = [
        headers.Sack(ev=EV, cack=5, bitmap=77),
        headers.Nack(reason=1, psn=5, ev=EV),
        headers.TransportAck(msn=3),
        headers.EndpointRequest(operation=2, request_id=9, ev=EV),
        headers.EndpointResponse(operation=2, request_id=9, ev=EV),
        headers.ReliabilityProbe(probe_id=3),
    ]
    originals = [
        b"".join(frame.control(path(), dest_qp=1, psn=2, opcode=OPCODE_OF[type(body)], body=body))
        for body in bodies_of_all_kinds
    ]
    originals += [write_bytes(tx_timestamp=ts) for ts in (None, 4)]
    originals += [write_bytes(opcode=Opcode.WRITE_ONLY_IMM, immediate=9, payload=rng.randbytes(s)) for s in (1, 30)]
    expected = [told(parse(data).body) for data in originals]
    refused = 0
    for round_ in range(100_000):
        which = round_ % len(originals)
        data = bytearray(originals[which])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            match rng.randrange(5):
                case 0 | 1:
                    data[at] ^= 1 << rng.randrange(8)
                case 2:
                    data[at] = rng.randrange(256)
                case 3:
                    del data[at + 1 :]
                case 4:
                    data += rng.randbytes(rng.randrange(8))
        try:
            decoded = parse(memoryview(data))
        except WireError as error:
            assert error.reason in packet.REASONS
            refused += 1
        else:
            if not decoded.trimmed:
                assert told(decoded.body) == expected[which]
    assert refused > 50_000
