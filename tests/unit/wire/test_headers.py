"""Each body against the transcribed byte positions, and round trips over the whole range of every field."""

import struct

import pytest
from hypothesis import given

from agents.wire import headers
from agents.wire.headers import Nack, Sack, write_opcode
from tests.unit.wire.packets import SACK_FIELDS, bits, bodies, sacks


@given(bodies, bits(4))
def test_a_body_comes_back_from_its_bytes(body: headers.ControlBody, lead: int) -> None:
    assert type(body).unpack(b"\xaa" * lead + body.pack(), lead) == body


@given(sacks)
def test_every_field_of_a_sack_comes_back(sack: Sack) -> None:
    back = Sack.unpack(sack.pack(), 0)  # two of equal bytes are equal, so that says nothing of the fields
    for name in (*SACK_FIELDS, "ack_psn_offset", "probe_id"):
        assert getattr(back, name) == getattr(sack, name), name


def test_sizes_are_those_of_the_text() -> None:
    sizes = {kind.__name__: kind.LAYOUT.size for kind in headers.CONTROL_BODIES.values()}
    assert sizes == {
        "TransportAck": 4,
        "EndpointRequest": 12,
        "EndpointResponse": 12,
        "Sack": 36,
        "Nack": 20,
        "ReliabilityProbe": 4,
        "Cnp": 16,
    }
    assert [headers.BTH.size, headers.METH.size, headers.TSETH.size, headers.RETH.size] == [12, 4, 4, 16]
    assert {kind: layout.size for kind, layout in headers.WRITE_HEADERS.items()} == {
        (False, False): 20,
        (False, True): 24,
        (True, False): 24,
        (True, True): 28,
    }


def test_every_field_of_a_sack_lies_where_the_text_says() -> None:
    data = Sack(
        ev=0x11223344, cack=0x556677, bitmap=0x8899AABBCCDDEEFF, sack_offset=-2, ack_psn_offset=-3, ecn_echo=2,
        ports_down=0x81, spdcid=0x0102, dpdcid=0x0304, cc_type=5, cc_flags=6, mpr=7 * 128, tx_timestamp=0x1234,
        ooo_count=0x7001, restore_cwnd=True, rcv_cwnd_pen=0x7F, rcvd_bytes_256=0xABCDEF,
    ).pack()  # fmt: skip
    assert data[0:2] == (2 << 5).to_bytes(2, "big")  # type 4, nh 5, M 2, r 3, pr 1, r 1
    assert data[2:4] == (-3).to_bytes(2, "big", signed=True)
    assert data[4:8] == bytes.fromhex("11223344")
    assert data[8:12] == bytes.fromhex("01020304")
    assert data[12] == 0x81
    assert data[13:16] == bytes.fromhex("556677")
    assert data[16:18] == bytes.fromhex("5607")
    assert data[18:20] == (-2).to_bytes(2, "big", signed=True)
    assert data[20:28] == bytes.fromhex("8899aabbccddeeff")
    assert data[28:36] == bytes.fromhex("1234 7001 ff abcdef")


def test_a_sack_that_answers_a_probe_says_so() -> None:
    data = Sack(ev=1, cack=2, probe_id=0xBEEF).pack()
    assert data[1] & 0b10
    assert data[2:4] == bytes.fromhex("beef")


def test_every_field_of_a_nack_lies_where_the_text_says() -> None:
    data = Nack(reason=0x0B, vendor=9, ev=0x11223344, psn=0x556677, cc_type=2, tx_timestamp=0x1234).pack()
    assert data == bytes.fromhex("0000 0b 09 11223344 00000000 00 556677 80 00 1234")


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(struct.error):
        Nack(reason=0x100, psn=0, ev=0).pack()
    with pytest.raises(struct.error):
        Sack(ev=1 << 32, cack=0).pack()


@pytest.mark.parametrize(
    ("place", "opcode"),
    [
        ((True, False, True), 0xC6),
        ((False, False, True), 0xC7),
        ((False, True, False), 0xC8),
        ((False, True, True), 0xC9),
        ((True, True, False), 0xCA),
        ((True, True, True), 0xCB),
    ],
)
def test_write_opcodes(place: tuple[bool, bool, bool], opcode: int) -> None:
    assert write_opcode(*place) == opcode


def test_an_mrc_opcode_is_the_rc_opcode_with_two_bits() -> None:
    for opcode in headers.Opcode:
        if opcode.name.startswith("RC_WRITE"):
            assert headers.Opcode[opcode.name.removeprefix("RC_")] == 0xC0 | opcode
    assert headers.Opcode.TRANSPORT_ACK == 0xC0 | headers.Opcode.RC_ACK
