"""The SRv6 attributes of routes: uN SIDs, decapsulation, and the way into a policy.

The NEXT-CSID flavour of RFC 9800, per-SID counters, and reduced encapsulation (RFC 8986, section 5.2), as attributes
of linux/seg6_local.h and linux/seg6_iptunnel.h.
"""

from __future__ import annotations

import socket
import struct

from testbed.fabric import rtnl
from testbed.fabric.attributes import as_int, nested, pick, raw, u8, u16, u32, u64

ACTION_END = 1
ACTION_END_DT6 = 7
FLAVOUR_NEXT_CSID = 1 << 4
MODE_ENCAP_REDUCED = 3

_TUNNEL = struct.Struct("=i6BH16s")  # struct seg6_iptunnel_encap with a segment routing header of one segment
_SRH_TYPE = 4
_SRH_UNITS_OF_ONE_SEGMENT = 2  # 8-byte units after the first


def next_csid(block_bits: int, usid_bits: int) -> bytes:
    """Route attributes of a uN: End with the NEXT-CSID flavour, counting its packets."""
    flavour = nested(
        rtnl.SEG6_LOCAL_FLAVORS,
        u32(rtnl.SEG6_LOCAL_FLV_OPERATION, FLAVOUR_NEXT_CSID),
        u8(rtnl.SEG6_LOCAL_FLV_LCBLOCK_BITS, block_bits),
        u8(rtnl.SEG6_LOCAL_FLV_LCNODE_FN_BITS, usid_bits),
    )
    counted = rtnl.SEG6_LOCAL_CNT_PACKETS, rtnl.SEG6_LOCAL_CNT_BYTES, rtnl.SEG6_LOCAL_CNT_ERRORS
    counters = nested(rtnl.SEG6_LOCAL_COUNTERS, *(u64(number, 0) for number in counted))
    return _encapsulation(rtnl.LWTUNNEL_ENCAP_SEG6_LOCAL, u32(rtnl.SEG6_LOCAL_ACTION, ACTION_END), flavour, counters)


def decapsulate(table: int) -> bytes:
    """Route attributes of an End.DT6 that looks the inner address up in `table`."""
    return _encapsulation(
        rtnl.LWTUNNEL_ENCAP_SEG6_LOCAL, u32(rtnl.SEG6_LOCAL_ACTION, ACTION_END_DT6), u32(rtnl.SEG6_LOCAL_TABLE, table)
    )


def encapsulate(segment: str) -> bytes:
    """Route attributes of a reduced encapsulation: one segment becomes the outer destination, without an SRH."""
    routing_header = 0, _SRH_UNITS_OF_ONE_SEGMENT, _SRH_TYPE, 0, 0, 0, 0  # nothing left, first segment, flags, tag
    packed = _TUNNEL.pack(MODE_ENCAP_REDUCED, *routing_header, socket.inet_pton(socket.AF_INET6, segment))
    return _encapsulation(rtnl.LWTUNNEL_ENCAP_SEG6, raw(rtnl.SEG6_IPTUNNEL_SRH, packed))


def _encapsulation(kind: int, *attributes: bytes) -> bytes:
    return u16(rtnl.RTA_ENCAP_TYPE, kind) + nested(rtnl.RTA_ENCAP, *attributes)


def read_segment(tunnel: bytes) -> tuple[int, str]:
    """(mode, first segment) of the RTA_ENCAP of a route into a policy."""
    mode, *_, segment = _TUNNEL.unpack_from(pick(tunnel)[rtnl.SEG6_IPTUNNEL_SRH])
    return mode, socket.inet_ntop(socket.AF_INET6, segment)


def read_action(local: bytes) -> tuple[int, int, int]:
    """(action, flavours, table) of the RTA_ENCAP of a local SID; 0 for what it does not have."""
    found = pick(local)
    flavours = pick(found.get(rtnl.SEG6_LOCAL_FLAVORS, b""))
    return (
        as_int(found.get(rtnl.SEG6_LOCAL_ACTION, b"")),
        as_int(flavours.get(rtnl.SEG6_LOCAL_FLV_OPERATION, b"")),
        as_int(found.get(rtnl.SEG6_LOCAL_TABLE, b"")),
    )


def read_packets(local: bytes) -> int:
    """How many packets a local SID has counted, from its RTA_ENCAP; 0 of one that does not count."""
    counters = pick(pick(local).get(rtnl.SEG6_LOCAL_COUNTERS, b""))
    return as_int(counters.get(rtnl.SEG6_LOCAL_CNT_PACKETS, b""))
