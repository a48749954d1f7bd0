"""Entropy values: 32 bits that name a path and ride in every packet (paper, section 3; order of the halves ours).

High half = low 16 bits of the inner IPv6 flow label: plane(3) | T0 uplink(8) | spare(5).
Low half = UDP source port: 0b11 | spare(14), so that it is a dynamic port.
The T0 uplink is the T1's number, because each T0 has one link to each T1 of its plane.
"""

from __future__ import annotations

from typing import Final

SOURCE_PORT_BASE: Final = 0xC000
_SPARE_HIGH_BITS: Final = 5
_SPARE_LOW_BITS: Final = 14
MAX_SPARE = (1 << _SPARE_HIGH_BITS + _SPARE_LOW_BITS) - 1


def make(plane: int, uplink: int, spare: int = 0) -> int:
    """The EV of a path: plane 0..7, T0 uplink 0..255, `spare` 0..MAX_SPARE bits without meaning for SRv6."""
    if not 0 <= plane < 8 or not 0 <= uplink < 256 or not 0 <= spare <= MAX_SPARE:
        raise ValueError(f"no EV for plane {plane}, uplink {uplink}, spare {spare}")
    high = plane << 13 | uplink << 5 | spare >> _SPARE_LOW_BITS
    return high << 16 | SOURCE_PORT_BASE | spare & (1 << _SPARE_LOW_BITS) - 1


def plane_of(ev: int) -> int:
    """The plane (= NIC port) that an EV names."""
    return ev >> 29


def uplink_of(ev: int) -> int:
    """The T0 uplink (= T1) that an EV names."""
    return ev >> 21 & 0xFF


def source_port(ev: int) -> int:
    """The UDP source port that carries the low half of an EV."""
    return ev & 0xFFFF


def flow_label(ev: int) -> int:
    """The inner IPv6 flow label that carries the high half of an EV."""
    return ev >> 16


def from_headers(flow_label: int, source_port: int) -> int:
    """The EV of a received packet, from its inner flow label (20 bits) and UDP source port."""
    return (flow_label & 0xFFFF) << 16 | source_port
