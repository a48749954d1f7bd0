"""Sizes against the packets that are really built."""

from __future__ import annotations

from agents.wire import address, frame, headers
from agents.wire import ev as entropy
from testbed.topology import sizes


def test_the_largest_data_packet_has_the_size_that_the_mtu_is_checked_for() -> None:
    path = frame.PathTemplate(
        src=address.host_address(0),
        dst=address.host_address(5),
        usids=address.path_usids(0, 0, 1, 1, 1),
        ev=entropy.make(0, 1),
    )
    packet = frame.write(
        path,
        dscp=4,
        dest_qp=7,
        psn=1,
        opcode=headers.Opcode.WRITE_ONLY_IMM,
        msn=1,
        rqmsn=1,
        address=0,
        rkey=1,
        length=sizes.PAYLOAD_BYTES,
        payload=memoryview(bytes(sizes.PAYLOAD_BYTES)),
        immediate=9,
        tx_timestamp=5,
    )
    assert sum(map(len, packet)) == sizes.MIN_MTU_BYTES == 4228
    assert sizes.frame_bytes() == sizes.MIN_MTU_BYTES + 14


def test_the_payload_share_grows_with_the_packet() -> None:
    assert sizes.payload_share() == 4096 / 4242
    assert sizes.payload_share(1024) < sizes.payload_share() < 1
