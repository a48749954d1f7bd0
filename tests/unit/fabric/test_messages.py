"""Requests as bytes: pyroute2 reads in them what was meant, and errors can name what they are about."""

from __future__ import annotations

import errno
import struct
from typing import Any

from pyroute2.netlink.rtnl import RTM_DELRULE
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from testbed.fabric import messages, plan
from testbed.fabric.netlink import NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, Request
from testbed.fabric.objects import Hop, Rule
from testbed.fabric.plan import Address, Filter, HtbClass, Interface, Neighbour, Qdisc, Route, Sid
from tests.unit.fabric.pyroute2_routes import Srv6Route

NEAR = Interface("eth0", 100, "veth", "02:6d:00:00:00:64", 4400, 101)
FAR = Interface("h0", 101, "veth", "02:6d:00:00:00:65", 4400, 100)


def read(kind: type, request: Request) -> Any:
    message = kind(request.message)
    message.decode()
    assert message["header"]["length"] == len(request.message)
    return message


def test_both_ends_of_a_link_are_in_one_request() -> None:
    message = read(ifinfmsg, messages.veth_pair(NEAR, 5, FAR, 7))
    info = message.get_attr("IFLA_LINKINFO")
    assert info.get_attr("IFLA_INFO_KIND") == "veth"
    peer = info.get_attr("IFLA_INFO_DATA").get_attr("VETH_INFO_PEER")
    for end, device, namespace_fd in ((message, NEAR, 5), (peer, FAR, 7)):
        assert end["index"] == device.ifindex
        assert end.get_attr("IFLA_IFNAME") == device.device
        assert end.get_attr("IFLA_ADDRESS") == device.mac
        assert end.get_attr("IFLA_MTU") == 4400
        assert end.get_attr("IFLA_NET_NS_FD") == namespace_fd
        assert end.get_attr("IFLA_NUM_TX_QUEUES") == end.get_attr("IFLA_NUM_RX_QUEUES") == 1


def test_up_and_down_touch_that_flag_alone() -> None:
    up, down = (read(ifinfmsg, messages.set_up(7, wanted, "")) for wanted in (True, False))
    assert (up["index"], up["flags"], up["change"]) == (7, 1, 1)
    assert (down["index"], down["flags"], down["change"]) == (7, 0, 1)


def test_an_address_is_not_asked_for_on_the_link() -> None:
    message = read(ifaddrmsg, messages.address(Address("sid0", "fd6d:7263::1/128"), 7))
    assert (message["index"], message["prefixlen"], message["flags"]) == (7, 128, 2)
    assert message.get_attr("IFA_ADDRESS") == message.get_attr("IFA_LOCAL") == "fd6d:7263::1"


def test_a_neighbour_is_permanent() -> None:
    message = read(ndmsg, messages.neighbour(Neighbour("eth0", "fe80::65", FAR.mac), 100))
    assert (message["ifindex"], message["state"]) == (100, 0x80)
    assert (message.get_attr("NDA_DST"), message.get_attr("NDA_LLADDR")) == ("fe80::65", FAR.mac)


def test_a_route_goes_by_its_next_hop() -> None:
    message = read(Srv6Route, messages.route(Route("fcbb:bb00:800::/48", "eth0", "fe80::65"), 100))
    assert (message["dst_len"], message["table"], message["proto"], message["type"]) == (48, 254, 4, 1)
    assert message.get_attr("RTA_DST") == "fcbb:bb00:800::"
    assert (message.get_attr("RTA_OIF"), message.get_attr("RTA_GATEWAY")) == (100, "fe80::65")


def test_a_black_hole_has_no_device() -> None:
    message = read(Srv6Route, messages.route(Route("::/0", "", kind="blackhole"), None))
    assert (message["dst_len"], message["type"], message.get_attr("RTA_OIF")) == (0, 6, None)


def test_a_next_hop_joins_those_that_are_there() -> None:
    request = messages.hop(Hop("fd6d:7263::/96", "eth0", "fe80::65"), 100)
    message = read(Srv6Route, request)
    assert (message["dst_len"], message.get_attr("RTA_OIF"), message.get_attr("RTA_GATEWAY")) == (96, 100, "fe80::65")
    assert message["header"]["flags"] & (NLM_F_CREATE | NLM_F_APPEND | NLM_F_EXCL) == NLM_F_CREATE | NLM_F_APPEND
    assert request.tolerated == {errno.EEXIST}


def test_a_rule_takes_what_a_node_sends_or_all() -> None:
    own = read(fibmsg, messages.rule(Rule(1, "main", own=True), True))
    rest = read(fibmsg, messages.rule(Rule(2, "blackhole"), True))
    assert (own["family"], own["action"], own["table"], rest["action"]) == (10, 1, 254, 6)
    assert (own.get_attr("FRA_IIFNAME"), rest.get_attr("FRA_IIFNAME")) == ("lo", None)
    assert [one.get_attr("FRA_PRIORITY") for one in (own, rest)] == [1, 2]
    gone = messages.rule(Rule(2, "blackhole"), False)
    assert read(fibmsg, gone)["header"]["type"] == RTM_DELRULE
    assert gone.tolerated == {errno.ENOENT}


def test_a_un_carries_its_flavour_its_lengths_and_counters() -> None:
    local = read(Srv6Route, messages.sid(Sid("fcbb:bb00:800::/48", "sid0", "End"), 7)).get_attr("RTA_ENCAP")
    flavours = local.get_attr("SEG6_LOCAL_FLAVORS")
    assert local.get_attr("SEG6_LOCAL_ACTION") == 1
    assert flavours.get_attr("SEG6_LOCAL_FLV_OPERATION") == 1 << 4
    assert flavours.get_attr("SEG6_LOCAL_FLV_LCBLOCK_BITS") == 32
    assert flavours.get_attr("SEG6_LOCAL_FLV_LCNODE_FN_BITS") == 16
    assert local.get_attr("SEG6_LOCAL_COUNTERS").get_attr("SEG6_LOCAL_CNT_PACKETS") == 0


def test_encapsulation_is_the_reduced_one() -> None:
    route = Route("fd6d:7263::2/128", "sid0", segment="fcbb:bb00:800:1800::")
    srh = read(Srv6Route, messages.route(route, 7)).get_attr("RTA_ENCAP").get_attr("SEG6_IPTUNNEL_SRH")
    mode, left, first = srh[0], srh[7], srh[12:28]  # struct seg6_iptunnel_encap: mode, then the header
    assert (mode, left, first.hex()) == (3, 0, "fcbbbb00080018000000000000000000")


def test_a_class_says_its_rates_and_bursts() -> None:
    item = HtbClass("eth0", 0x10010, 0x100FF, 1, 200_000, 20_000_000, 6400, 64_000, 4414)
    message = read(tcmsg, messages.htb_class(item, 100))
    assert (message["index"], message["handle"], message["parent"]) == (100, 0x10010, 0x100FF)
    values = message.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_PARMS")
    assert (values["rate"], values["ceil"], values["prio"], values["quantum"]) == (25_000, 2_500_000, 1, 4414)
    assert (values["buffer"], values["cbuffer"]) == (100, 1000)


def test_htb_names_its_default_class_and_has_an_empty_size_table() -> None:
    item = Qdisc("eth0", "htb", 0x10000, 0xFFFFFFFF, default_class=0x10, size_table=True)
    message = read(tcmsg, messages.qdisc(item, 100))
    assert message.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_INIT")["defcls"] == 0x10
    assert message.get_attr("TCA_STAB") is not None


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
    clsact = messages.qdisc(plan.clsact("eth0"), 100).message
    for hook, attribute in (("ingress", 13), ("egress", 14)):  # TCA_*_BLOCK, which pyroute2 does not know
        message = messages.program_filter(Filter(hook, "mrclab_port"), 5).message  # type: ignore[arg-type]
        no_device, _, block = struct.unpack_from("=iII", message, 20)
        assert no_device == -1
        assert struct.pack("=HHI", 8, attribute, block) in clsact
        assert b"mrclab_port\0" in message


def test_a_block_without_ports_is_no_error() -> None:
    assert errno.EINVAL in messages.filters_of(1).tolerated
