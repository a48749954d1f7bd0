"""pyroute2 as an oracle: its route messages, with the SRv6 attributes that it lacks (as of 0.9.7), from the kernel's
headers.

The classes are made anew and not derived from pyroute2's, whose attribute tables are compiled once per class and
inherited from then on.
"""

from __future__ import annotations

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.rtmsg import rtmsg


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
    encaps = rtmsg.encaps | {5: Seg6Tunnel, 7: Seg6Local}
