"""`mrc.lua` in tshark, against what the packets were built from."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from agents.wire import address, dscp, frame
from agents.wire import ev as ev_format
from agents.wire.headers import (
    EcnEcho,
    EndpointOperation,
    EndpointRequest,
    Nack,
    NackReason,
    Opcode,
    ReliabilityProbe,
    Sack,
)
from agents.wire.icrc import Buffer
from testbed.lab.decode import DISSECTOR, decode
from testbed.lab.pcapng import Writer

EV = ev_format.make(5, 17, 3)
PATH = frame.PathTemplate(
    src=address.host_address(0), dst=address.host_address(1), usids=address.path_usids(5, 0, 17, 1, 0), ev=EV
)
ETHERNET = bytes(12) + b"\x86\xdd"

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def decoded(tmp_path: Path, packets: Sequence[tuple[Buffer, ...]], *fields: str) -> list[list[str]]:
    """These fields of each packet, as tshark prints them."""
    file = tmp_path / "packets.pcapng"
    with file.open("wb") as output:
        writer = Writer(output, "eth0", "a NIC", "packets made by hand")
        for number, buffers in enumerate(packets):
            writer.packet(number, ETHERNET + b"".join(buffers), outbound=True)
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(file), "-T", "fields"]
    for field in fields or ("frame.number",):
        command += ["-e", field]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Lua" not in ran.stderr, ran.stderr
    return [line.split("\t") for line in ran.stdout.splitlines()]


def control(body: Sack | Nack | EndpointRequest | ReliabilityProbe, opcode: int) -> tuple[Buffer, ...]:
    return frame.control(PATH, dest_qp=0x123456, psn=777, opcode=opcode, body=body)


def write(**more: object) -> tuple[Buffer, ...]:
    given: dict[str, object] = {"opcode": Opcode.WRITE_MIDDLE, "immediate": None, "tx_timestamp": 500} | more
    return frame.write(
        PATH, dscp=dscp.TRIMMABLE, dest_qp=16, psn=9, msn=3, rqmsn=2, address=0x1_0000_0000, rkey=0xABCDEF01,
        length=10_000, payload=bytes(100), **given,
    )  # type: ignore[arg-type]  # fmt: skip


def test_a_sack(tmp_path: Path) -> None:
    sack = Sack(
        EV, 4000, bitmap=0x8000_0000_0000_0005, sack_offset=-3, ack_psn_offset=7, ecn_echo=EcnEcho.SKIP_ONCE,
        ports_down=0x40, mpr=1024, tx_timestamp=321, ooo_count=12, rcv_cwnd_pen=9, rcvd_bytes_256=77,
    )  # fmt: skip
    names = [
        *("mrc.opcode", "mrc.destqp", "mrc.psn", "mrc.ev", "mrc.ev.plane", "mrc.ev.uplink"),
        *("mrc.sack.ecn_echo", "mrc.sack.probe_reply", "mrc.sack.ack_psn_offset", "mrc.sack.ports_down"),
        *("mrc.sack.cack", "mrc.sack.mpr", "mrc.sack.offset", "mrc.sack.bitmap"),
        *("mrc.timestamp", "mrc.sack.ooo_count", "mrc.sack.rcv_cwnd_pen", "mrc.sack.rcvd"),
    ]
    ((opcode, qp, psn, ev, plane, uplink, echo, reply, trigger, ports, cack, mpr, offset, bitmap, *rest),) = decoded(
        tmp_path, [control(sack, Opcode.SACK)], *names
    )
    assert (int(opcode, 16), int(qp), int(psn)) == (Opcode.SACK, 0x123456, 777)
    assert (int(ev, 16), int(plane), int(uplink)) == (EV, 5, 17)
    assert (int(echo), reply in ("0", "False"), int(trigger)) == (1, True, 7)
    assert (int(ports, 16), int(cack), int(mpr), int(offset), int(bitmap, 16)) == (0x40, 4000, 8, -3, sack.bitmap)
    assert [int(value) for value in rest] == [321, 12, 9, 77]


def test_an_answer_to_a_probe_and_the_probe(tmp_path: Path) -> None:
    packets = [
        control(ReliabilityProbe(55, 66), Opcode.RELIABILITY_PROBE),
        control(Sack(EV, 1, probe_id=55), Opcode.SACK),
    ]
    assert [row[0] for row in decoded(tmp_path, packets, "mrc.probe_id")] == ["55", "55"]


def test_a_nack_and_an_endpoint_request(tmp_path: Path) -> None:
    packets = [
        control(Nack(NackReason.TRIMMED_LASTHOP, 88, EV, tx_timestamp=5), Opcode.NACK),
        control(EndpointRequest(EndpointOperation.EV_PROBE, 7, EV), Opcode.ENDPOINT_REQUEST),
    ]
    rows = decoded(tmp_path, packets, "mrc.nack.reason", "mrc.nack.psn", "mrc.endpoint.operation", "mrc.ev.plane")
    assert int(rows[0][0], 16) == NackReason.TRIMMED_LASTHOP and rows[0][1] == "88"
    assert rows[1][2] == "2" and [row[3] for row in rows] == ["5", "5"]


def test_writes_with_and_without_immediate_and_timestamp(tmp_path: Path) -> None:
    packets = [
        write(retransmission=True),
        write(opcode=Opcode.WRITE_LAST_IMM, immediate=99, ack_request=True),
        write(tx_timestamp=None),
    ]
    names = ("mrc.rkey", "mrc.address", "mrc.length", "mrc.immediate", "mrc.timestamp", "mrc.msn")
    rows = decoded(tmp_path, packets, *names)
    assert {(int(row[0], 16), int(row[1], 16), row[2], row[5]) for row in rows} == {
        (0xABCDEF01, 0x1_0000_0000, "10000", "3")
    }
    assert [row[3] for row in rows] == ["", "99", ""] and [row[4] for row in rows] == ["500", "500", ""]


def test_decode_shows_a_line_for_each_packet(tmp_path: Path) -> None:
    packets = [write(), control(Nack(NackReason.TRIMMED, 88, EV), Opcode.NACK)]
    decoded(tmp_path, packets)
    lines = list(decode(tmp_path / "packets.pcapng"))
    assert "MRC" in lines[0] and "WRITE middle PSN 9 QP 16" in lines[0] and "NACK PSN 777" in lines[1]
    assert any("Reason: TRIMMED (0x01)" in line for line in decode(tmp_path / "packets.pcapng", verbose=True))


def test_plain_roce_is_left_to_wireshark(tmp_path: Path) -> None:
    ((mrc, roce),) = decoded(tmp_path, [write(opcode=Opcode.RC_WRITE_MIDDLE)], "mrc.opcode", "infiniband.bth.opcode")
    assert (mrc, roce) == ("", "7")
