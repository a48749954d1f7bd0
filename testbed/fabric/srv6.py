"""The SRv6 attributes of routes that pyroute2 lacks or gets wrong (as of 0.9.7), as pyroute2 message classes.

pyroute2 drops `flavors` and `count` silently and turns `encap.red` into `encap`. Here: the NEXT-CSID flavour of
RFC 9800, per-SID counters, and reduced encapsulation (RFC 8986, section 5.2). Numbers from linux/seg6_local.h and
linux/seg6_iptunnel.h. The classes are made anew and not derived from pyroute2's, whose attribute tables are compiled
once per class and inherited from then on.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.rtmsg import rtmsg

LWTUNNEL_ENCAP_SEG6 = 5
LWTUNNEL_ENCAP_SEG6_LOCAL = 7

ACTION_END = 1
ACTION_END_DT6 = 7
FLAVOUR_NEXT_CSID = 1 << 4
MODE_ENCAP_REDUCED = 3

_TUNNEL = struct.Struct("=i6BH16s")  # struct seg6_iptunnel_encap with a segment routing header of one segment
_SRH_TYPE = 4
_SRH_UNITS_OF_ONE_SEGMENT = 2  # 8-byte units after the first


class Seg6Local(nla):  # type: ignore[misc]
    """RTA_ENCAP of a local SID."""

    nla_map = (
        ("SEG6_LOCAL_UNSPEC", "none"),
        ("SEG6_LOCAL_ACTION", "uint32"),
        ("SEG6_LOCAL_SRH", "cdata"),
        ("SEG6_LOCAL_TABLE", "uint32"),
        ("SEG6_LOCAL_NH4", "cdata"),
        ("SEG6_LOCAL_NH6", "cdata"),
        ("SEG6_LOCAL_IIF", "uint32"),
        ("SEG6_LOCAL_OIF", "uint32"),
        ("SEG6_LOCAL_BPF", "cdata"),
        ("SEG6_LOCAL_VRFTABLE", "uint32"),
        ("SEG6_LOCAL_COUNTERS", "counters"),
        ("SEG6_LOCAL_FLAVORS", "flavors"),
    )

    class counters(nla):  # type: ignore[misc]
        """Packets, bytes and errors of one SID."""

        nla_map = (
            ("SEG6_LOCAL_CNT_UNSPEC", "none"),
            ("SEG6_LOCAL_CNT_PAD", "cdata"),
            ("SEG6_LOCAL_CNT_PACKETS", "uint64"),
            ("SEG6_LOCAL_CNT_BYTES", "uint64"),
            ("SEG6_LOCAL_CNT_ERRORS", "uint64"),
        )

    class flavors(nla):  # type: ignore[misc]
        """RFC 8986 flavours and the NEXT-CSID one with its lengths in bits."""

        nla_map = (
            ("SEG6_LOCAL_FLV_UNSPEC", "none"),
            ("SEG6_LOCAL_FLV_OPERATION", "uint32"),
            ("SEG6_LOCAL_FLV_LCBLOCK_BITS", "uint8"),
            ("SEG6_LOCAL_FLV_LCNODE_FN_BITS", "uint8"),
        )


class Seg6Tunnel(nla):  # type: ignore[misc]
    """RTA_ENCAP of a route into an SRv6 policy."""

    nla_map = (("SEG6_IPTUNNEL_UNSPEC", "none"), ("SEG6_IPTUNNEL_SRH", "cdata"))


class Srv6Route(rtmsg):  # type: ignore[misc]
    """A route message that knows these encapsulations."""

    __slots__ = ()
    encaps = rtmsg.encaps | {LWTUNNEL_ENCAP_SEG6: Seg6Tunnel, LWTUNNEL_ENCAP_SEG6_LOCAL: Seg6Local}


Attributes = list[tuple[str, Any]]


def next_csid(block_bits: int, usid_bits: int) -> Attributes:
    """Route attributes of a uN: End with the NEXT-CSID flavour, counting its packets."""
    flavour = [
        ("SEG6_LOCAL_FLV_OPERATION", FLAVOUR_NEXT_CSID),
        ("SEG6_LOCAL_FLV_LCBLOCK_BITS", block_bits),
        ("SEG6_LOCAL_FLV_LCNODE_FN_BITS", usid_bits),
    ]
    counters = [("SEG6_LOCAL_CNT_PACKETS", 0), ("SEG6_LOCAL_CNT_BYTES", 0), ("SEG6_LOCAL_CNT_ERRORS", 0)]
    return _local(ACTION_END, ("SEG6_LOCAL_FLAVORS", {"attrs": flavour}), ("SEG6_LOCAL_COUNTERS", {"attrs": counters}))


def decapsulate(table: int) -> Attributes:
    """Route attributes of an End.DT6 that looks the inner address up in `table`."""
    return _local(ACTION_END_DT6, ("SEG6_LOCAL_TABLE", table))


def _local(action: int, *more: tuple[str, Any]) -> Attributes:
    attributes = [("SEG6_LOCAL_ACTION", action), *more]
    return [("RTA_ENCAP_TYPE", LWTUNNEL_ENCAP_SEG6_LOCAL), ("RTA_ENCAP", {"attrs": attributes})]


def encapsulate(segment: str) -> Attributes:
    """Route attributes of a reduced encapsulation: one segment becomes the outer destination, without an SRH."""
    routing_header = 0, _SRH_UNITS_OF_ONE_SEGMENT, _SRH_TYPE, 0, 0, 0, 0  # nothing left, first segment, flags, tag
    packed = _TUNNEL.pack(MODE_ENCAP_REDUCED, *routing_header, socket.inet_pton(socket.AF_INET6, segment))
    return [("RTA_ENCAP_TYPE", LWTUNNEL_ENCAP_SEG6), ("RTA_ENCAP", {"attrs": [("SEG6_IPTUNNEL_SRH", packed)]})]


def read_segment(srh: bytes) -> tuple[int, str]:
    """(mode, first segment) of a SEG6_IPTUNNEL_SRH attribute."""
    mode, *_, segment = _TUNNEL.unpack_from(srh)
    return mode, socket.inet_ntop(socket.AF_INET6, segment)
