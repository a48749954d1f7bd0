"""The ICRC against scapy's, and against what it has to notice and not to notice."""

import random
import zlib

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from agents.wire import icrc
from tests.unit.wire.packets import icrc_bytes, write_bytes

# (byte of the inner packet, bits of it) that a router may change
MASKED = {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, 46: 0xFF, 47: 0xFF, 52: 0xFF}


def inner_packet(size: int = 64) -> bytes:
    return write_bytes(payload=random.Random(size).randbytes(size))[40:-4]


@pytest.mark.parametrize("size", [0, 4, 64, 1000, 4096])
def test_equal_to_scapy(size: int) -> None:
    payload = random.Random(size).randbytes(size)
    built = bytes(
        IPv6(src="fd6d:7263::1", dst="fd6d:7263::6", tc=2, fl=0x4060, hlim=64)
        / UDP(sport=0xC123, dport=4791, chksum=0)
        / BTH(opcode=0xC7, dqpn=0x123456, psn=0xABCDEF, ackreq=1)
        / Raw(payload)
    )
    assert icrc_bytes(built[:-4]) == built[-4:]


@pytest.mark.parametrize("cut", [53, 60, 80, 81, 143])
def test_a_payload_may_come_in_buffers_of_its_own(cut: int) -> None:
    inner = memoryview(inner_packet())
    whole = icrc_bytes(inner)
    assert icrc_bytes(inner[:cut], inner[cut:]) == whole
    assert icrc_bytes(inner[:cut], bytearray(inner[cut:]), b"") == whole
    assert int.from_bytes(whole, "little") == icrc.value(inner)


def test_it_sees_every_bit_that_routers_leave_alone_and_no_other() -> None:
    inner = inner_packet()
    whole = icrc_bytes(inner)
    for at in range(len(inner)):
        for bit in range(8):
            changed = bytearray(inner)
            changed[at] ^= 1 << bit
            masked = MASKED.get(at, 0) & 1 << bit or (at == 0 and bit >= 4)  # the IP version is always 6
            assert (icrc_bytes(changed) == whole) == bool(masked), (at, bit)


def test_whichever_crc32_is_installed_is_that_of_zlib() -> None:
    data = random.Random(2).randbytes(5000)
    assert icrc.crc32(data, 77) == zlib.crc32(data, 77)


@pytest.mark.parametrize("size", [0, 64, 4096])
def test_a_packet_is_intact_whatever_routers_made_of_it_until_another_bit_changes(size: int) -> None:
    rng = random.Random(size)
    for _ in range(20):
        inner = bytearray(inner_packet(size))
        for at, mask in MASKED.items():
            inner[at] ^= rng.getrandbits(8) & mask
        whole = inner + icrc_bytes(inner)
        assert intact(whole)
        at, bit = rng.randrange(1, len(whole)), 1 << rng.randrange(8)
        whole[at] ^= bit
        assert intact(whole) == bool(at < len(inner) and MASKED.get(at, 0) & bit)


def intact(packet: bytearray) -> bool:
    word, checksum = int.from_bytes(packet[:4], "big"), int.from_bytes(packet[46:48], "big")
    return icrc.is_intact(packet, word, packet[7], checksum, packet[52])
