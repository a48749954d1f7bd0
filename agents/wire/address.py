"""The address plan: uSIDs, SRv6 destination addresses and host addresses, all computed, never looked up.

Follows RFC 9800 (NEXT-CSID, F3216: a 32-bit locator block and six 16-bit uSIDs per address) and the path
template of the MRC paper (arXiv 2605.04333, section 3): block | own T0 | T1 | remote T0 | downlink | 0 | 0.

A uSID is plane(3) | kind(2) | index(11). Kind 0 stays unused because a uSID of 0 ends a container.
"""

from __future__ import annotations

import struct
from enum import IntEnum

DEFAULT_BLOCK = 0xFCBBBB00  # fcbb:bb00::/32
HOST_PREFIX = bytes.fromhex("fd6d7263" + "00" * 8)  # fd6d:7263::/96; the host's number + 1 fills the last 32 bits

MAX_PLANES = 8
MAX_T0_PER_PLANE = 512
MAX_T1_PER_PLANE = 256
MAX_DOWNLINKS_PER_T0 = 256
MAX_HOSTS = MAX_T0_PER_PLANE * MAX_DOWNLINKS_PER_T0

USID_BITS = 16
USIDS_PER_ADDRESS = 6


class Kind(IntEnum):
    """What a uSID names."""

    T0 = 1
    T1 = 2
    DOWNLINK = 3


_LIMIT = {Kind.T0: MAX_T0_PER_PLANE, Kind.T1: MAX_T1_PER_PLANE, Kind.DOWNLINK: MAX_DOWNLINKS_PER_T0}


def usid(plane: int, kind: Kind, index: int) -> int:
    """The 16-bit uSID of a switch or downlink. Raises ValueError when plane or index has no room."""
    if not 0 <= plane < MAX_PLANES:
        raise ValueError(f"plane {plane} is not in 0..{MAX_PLANES - 1}")
    if not 0 <= index < _LIMIT[kind]:
        raise ValueError(f"{kind.name} index {index} is not in 0..{_LIMIT[kind] - 1}")
    return plane << 13 | kind << 11 | index


def split_usid(value: int) -> tuple[int, Kind, int]:
    """(plane, kind, index) of a uSID. Raises ValueError for the unused kind 0."""
    return value >> 13, Kind(value >> 11 & 0b11), value & 0x7FF


def sid_address(block: int, *usids: int) -> bytes:
    """The 16-byte IPv6 address block | usids... | zeros. At most six uSIDs."""
    if len(usids) > USIDS_PER_ADDRESS:
        raise ValueError(f"{len(usids)} uSIDs do not fit one address of {USIDS_PER_ADDRESS}")
    return struct.pack("!I6H", block, *usids, *(0,) * (USIDS_PER_ADDRESS - len(usids)))


def address_usids(address: bytes) -> tuple[int, ...]:
    """The uSIDs of a 16-byte SID address, up to the first 0."""
    usids = struct.unpack("!4x6H", address)
    return usids[: usids.index(0)] if 0 in usids else usids


def path_usids(plane: int, src_t0: int, t1: int | None, dst_t0: int, downlink: int) -> tuple[int, ...]:
    """The uSIDs from a host's own T0 to a host behind `dst_t0`; without `t1` the path stays inside the T0."""
    own = usid(plane, Kind.T0, src_t0)
    last = usid(plane, Kind.DOWNLINK, downlink)
    if t1 is None:
        if src_t0 != dst_t0:
            raise ValueError(f"a path from T0 {src_t0} to T0 {dst_t0} needs a T1")
        return own, last
    return own, usid(plane, Kind.T1, t1), usid(plane, Kind.T0, dst_t0), last


def loop_usids(plane: int, t0: int, t1: int | None, downlink: int) -> tuple[int, ...]:
    """The uSIDs of a self-probe: from a host to its T0 and back, or on to a T1 and back over the same T0."""
    own, last = usid(plane, Kind.T0, t0), usid(plane, Kind.DOWNLINK, downlink)
    return (own, last) if t1 is None else (own, usid(plane, Kind.T1, t1), own, last)


def host_address(host: int) -> bytes:
    """The 16-byte address of a host's NIC (the inner destination), the same on all planes. ValueError: no such host."""
    if not 0 <= host < MAX_HOSTS:
        raise ValueError(f"host {host} is not in 0..{MAX_HOSTS - 1}")
    return HOST_PREFIX + struct.pack("!I", host + 1)


def host_number(address: bytes) -> int | None:
    """The host that has this 16-byte address; None when it is no host's."""
    if not address.startswith(HOST_PREFIX):
        return None
    host = int.from_bytes(address[len(HOST_PREFIX) :], "big") - 1
    return host if 0 <= host < MAX_HOSTS else None
