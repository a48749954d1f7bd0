"""Requests as bytes: what pyroute2 leaves out is in them, and errors can name what they are about."""

from __future__ import annotations

import errno
import struct

from testbed.fabric import messages, srv6
from testbed.fabric.netlink import NLM_F_CREATE, NLM_F_EXCL
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
    first = messages.qdisc(Qdisc("eth0", "bfifo", 0x30000, 0x10010, limit_bytes=1000), 101)
    second = messages.qdisc(Qdisc("eth1", "bfifo", 0x30000, 0x10010, limit_bytes=1000), 102)
    assert struct.unpack_from("=i", first.message, 20) == (101,)
    assert struct.unpack_from("=i", second.message, 20) == (102,)
    assert first.message[:20] == second.message[:20]
    assert first.message[24:] == second.message[24:]
    assert (first.about, second.about) == ("bfifo on eth0", "bfifo on eth1")


def test_a_line_faster_than_34_gb_s_takes_the_64_bit_rate() -> None:
    fast = HtbClass("eth0", 0x10001, 0x10000, 0, 100 * 10**9, 100 * 10**9, 640, 640, 4414)
    assert struct.pack("=Q", 100 * 10**9 // 8) in messages.htb_class(fast, 1).message


def test_another_rate_is_a_change_of_the_class_that_is_there() -> None:
    item = HtbClass("eth0", 0x10001, 0x10000, 0, 10**7, 10**7, 640, 640, 4414)
    made, changed = messages.htb_class(item, 1).message, messages.htb_class(item, 1, change=True).message
    create_and_exclusive = struct.unpack_from("=H", made, 6)[0] ^ struct.unpack_from("=H", changed, 6)[0]
    assert create_and_exclusive == NLM_F_CREATE | NLM_F_EXCL
    assert made[8:] == changed[8:]


def test_a_program_goes_to_the_hook_that_it_is_for() -> None:
    for hook, parent in (("ingress", 0xFFFFFFF2), ("egress", 0xFFFFFFF3)):
        message = messages.program_filter(Filter("eth0", hook, "mrclab_port"), 1, 5).message  # type: ignore[arg-type]
        assert struct.unpack_from("=I", message, 28) == (parent,)
        assert b"mrclab_port\0" in message


def test_a_device_without_filters_is_no_error() -> None:
    assert errno.EINVAL in messages.filters_of(1, 0x10000).tolerated
