"""A third reader: what tshark makes of a capture of our packets (it knows the BTH, not MRC's opcodes)."""

import struct
import subprocess

from agents.wire import frame, headers
from agents.wire.headers import Opcode
from tests.unit.wire.packets import EV, path, write_bytes

ETHERNET = b"\x02\0\0\0\0\x01" + b"\x02\0\0\0\0\x02" + b"\x86\xdd"
LINKTYPE_ETHERNET = 1
FIELDS = ["ipv6.dst", "udp.srcport", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn"]


def capture(packets: list[bytes]) -> bytes:
    """The packets as a pcap file."""
    records = [
        struct.pack("<IIII", 0, 0, len(frame_), len(frame_)) + frame_ for frame_ in map(ETHERNET.__add__, packets)
    ]
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, LINKTYPE_ETHERNET) + b"".join(records)


def test_tshark_reads_the_same_numbers() -> None:
    sack = headers.Sack(ev=EV, cack=1)
    packets = [
        write_bytes(psn=0xABCDEF),
        b"".join(frame.control(path(), dest_qp=77, psn=9, opcode=Opcode.SACK, body=sack)),
    ]
    command = ["tshark", "-r", "-", "-T", "fields", *(part for field in FIELDS for part in ("-e", field))]
    shown = subprocess.run(command, input=capture(packets), capture_output=True, check=True).stdout.decode()
    addresses = "fcbb:bb00:4800:5003:4801:5801::,fd6d:7263::6"  # outer, inner
    assert [line.split("\t") for line in shown.splitlines()] == [
        [addresses, str(EV & 0xFFFF), str(0xC7), "0x123456", str(0xABCDEF)],
        [addresses, str(EV & 0xFFFF), str(0xDC), "0x00004d", "9"],
    ]
