"""Bytes of a data packet on the wire: what the MTU has to hold, and how much of a line rate is payload.

Header sizes as in the MRC packet stack (OCP MRC 1.0, as publicly transcribed):
outer IPv6 | inner IPv6 | UDP | BTH | METH | TSETH | RETH | ImmDt | payload | ICRC.
"""

from __future__ import annotations

PAYLOAD_BYTES = 4096

HEADER_BYTES = {
    "outer IPv6": 40,
    "inner IPv6": 40,
    "UDP": 8,
    "BTH": 12,
    "METH": 4,
    "TSETH": 4,
    "RETH": 16,
    "ImmDt": 4,
    "ICRC": 4,
}
ALL_HEADERS_BYTES = sum(HEADER_BYTES.values())
ETHERNET_HEADER_BYTES = 14  # a shaper counts it; it does not count the frame check sequence

MIN_MTU_BYTES = PAYLOAD_BYTES + ALL_HEADERS_BYTES


def frame_bytes(payload_bytes: int = PAYLOAD_BYTES) -> int:
    """The bytes of a data packet's Ethernet frame as a port's shaper counts them, with all headers present."""
    return ETHERNET_HEADER_BYTES + ALL_HEADERS_BYTES + payload_bytes


def payload_share(payload_bytes: int = PAYLOAD_BYTES) -> float:
    """Payload / frame bytes: the fraction of a line rate that is payload when all packets have this size."""
    return payload_bytes / frame_bytes(payload_bytes)
