"""What the tests of this folder send: a path, WRITE packets on it, and any control body (hypothesis strategies)."""

import random
from typing import Any

from hypothesis import strategies as st

from agents.wire import address, dscp, ev, frame, icrc
from agents.wire.headers import (
    EndpointRequest,
    EndpointResponse,
    Nack,
    Opcode,
    ReliabilityProbe,
    Sack,
    TransportAck,
)

SRC, DST = address.host_address(0), address.host_address(5)
EV = ev.make(2, 3, 4711)
USIDS = address.path_usids(2, 0, 3, 1, 1)


def path(**changes: Any) -> frame.PathTemplate:
    """The path of plane 2 over T1 3, with `changes`."""
    fields: dict[str, Any] = {"src": SRC, "dst": DST, "usids": USIDS, "ev": EV}
    return frame.PathTemplate(**fields | changes)


def icrc_bytes(inner: icrc.Buffer, *more: icrc.Buffer) -> bytes:
    """The ICRC as it goes on the wire."""
    return icrc.value(inner, *more).to_bytes(icrc.ICRC_BYTES, "little")


def write_bytes(over: frame.PathTemplate | None = None, **changes: Any) -> bytes:
    """A WRITE packet with a payload of 64 random bytes, with `changes`."""
    fields: dict[str, Any] = {
        "dscp": dscp.NO_TRIM,
        "dest_qp": 0x123456,
        "psn": 0xABCDEF,
        "opcode": Opcode.WRITE_MIDDLE,
        "msn": 7,
        "rqmsn": 3,
        "address": 0x1122334455667788,
        "rkey": 0x99AABBCC,
        "length": 1 << 20,
        "payload": random.Random(1).randbytes(64),
    }
    return b"".join(frame.write(over or path(), **fields | changes))


def bits(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << count) - 1)


s16 = st.integers(-(1 << 15), (1 << 15) - 1)

SACK_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "ev": bits(32),
    "cack": bits(24),
    "bitmap": bits(64),
    "sack_offset": s16,
    "ecn_echo": bits(2),
    "ports_down": bits(8),
    "spdcid": bits(16),
    "dpdcid": bits(16),
    "cc_type": bits(4),
    "cc_flags": bits(4),
    "mpr": bits(8).map(lambda units: units * 128),
    "tx_timestamp": bits(16),
    "ooo_count": bits(15),
    "restore_cwnd": st.booleans(),
    "rcv_cwnd_pen": bits(7),
    "rcvd_bytes_256": bits(24),
}
_endpoint_fields = {
    "operation": bits(8),
    "request_id": bits(16),
    "ev": bits(32),
    "ports_down": bits(32),
    "ecn_echo": bits(2),
}
sacks = st.builds(Sack, ack_psn_offset=s16, **SACK_FIELDS) | st.builds(Sack, probe_id=bits(16), **SACK_FIELDS)
nacks = st.builds(
    Nack, reason=bits(8), psn=bits(24), ev=bits(32), vendor=bits(8), cc_type=bits(2), tx_timestamp=bits(16)
)
acks = st.builds(TransportAck, msn=bits(24), syndrome=bits(8))
requests = st.builds(EndpointRequest, **_endpoint_fields)
responses = st.builds(EndpointResponse, **_endpoint_fields)
probes = st.builds(ReliabilityProbe, probe_id=bits(16), tx_timestamp=bits(16))
bodies = sacks | nacks | acks | requests | responses | probes
