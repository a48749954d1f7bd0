"""Requests as bytes: what pyroute2 leaves out is in them, and errors can name what they are about."""

from __future__ import annotations

import errno
import struct

from testbed.fabric import messages, srv6
from testbed.fabric.plan import Filter, HtbClass, Qdisc, Route, Sid


def decoded(message: bytes) -> srv6.Srv6Route:
    route = srv6.Srv6Route(message)
    route.decode()
    return route


def test_a_un_carries_its_flavour_its_lengths_and_counters() -> None:
    local = decoded(messages.sid(Sid("fcbb:bb00:800::/48", "sid0", "End"), 7).message).get_attr("RTA_ENCAP")
    flavours = local.get_attr("SEG6_LOCAL_FLAVORS")
    assert flavours.get_attr("SEG6_LOCAL_FLV_OPERATION") == 1 << 4
    assert flavours.get_attr("SEG6_LOCAL_FLV_LCBLOCK_BITS") == 32
    assert flavours.get_attr("SEG6_LOCAL_FLV_LCNODE_FN_BITS") == 16
    assert local.get_attr("SEG6_LOCAL_COUNTERS").get_attr("SEG6_LOCAL_CNT_PACKETS") == 0


def test_encapsulation_is_the_reduced_one() -> None:
    route = Route("fd6d:7263::2/128", "sid0", segment="fcbb:bb00:800:1800::")
    srh = decoded(messages.route(route, 7).message).get_attr("RTA_ENCAP").get_attr("SEG6_IPTUNNEL_SRH")
    assert srv6.read_segment(srh) == (srv6.MODE_ENCAP_REDUCED, "fcbb:bb00:800:1800::")


def test_ports_share_a_template_but_not_their_number() -> None:
    first = messages.qdisc(Qdisc("eth0", "bfifo", 0x30000, 0x1000A, limit_bytes=1000), 101)
    second = messages.qdisc(Qdisc("eth1", "bfifo", 0x30000, 0x1000A, limit_bytes=1000), 102)
    assert struct.unpack_from("=i", first.message, 20) == (101,)
    assert struct.unpack_from("=i", second.message, 20) == (102,)
    assert first.message[:20] == second.message[:20]
    assert first.message[24:] == second.message[24:]
    assert (first.about, second.about) == ("bfifo on eth0", "bfifo on eth1")


def test_a_line_faster_than_34_gb_s_takes_the_64_bit_rate() -> None:
    fast = HtbClass("eth0", 0x10001, 0x10000, 0, 100 * 10**9, 100 * 10**9, 640, 640, 4414)
    assert struct.pack("=Q", 100 * 10**9 // 8) in messages.htb_class(fast, 1).message


def test_the_dscp_filter_looks_at_the_six_bits_of_the_outer_header() -> None:
    message = messages.dscp_filter(Filter("eth0", "u32", dscp=46, classid=0x10001), 1).message
    mask_and_value = struct.pack(">II", 0x0FC00000, 46 << 22)
    assert mask_and_value in message


def test_a_device_without_filters_is_no_error() -> None:
    assert errno.EINVAL in messages.filters_of(1, 0x10000).tolerated
