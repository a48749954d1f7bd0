"""Plan objects as rtnetlink requests: each function encodes one object with pyroute2's message classes.

Everything is `create or replace` where the kernel has it, so that applying a plan again (repair, undoing a fault)
leads to the same state. Nothing is sent here.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import replace
from functools import cache
from typing import Any

from pyroute2.netlink import nlmsg
from pyroute2.netlink.rtnl import (
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_GETNEIGH,
    RTM_GETQDISC,
    RTM_GETROUTE,
    RTM_GETTCLASS,
    RTM_GETTFILTER,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWQDISC,
    RTM_NEWROUTE,
    RTM_NEWTCLASS,
    RTM_NEWTFILTER,
)
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.tcmsg import plugins, sched_pfifo, tcmsg

from agents.wire import address as plan_of_addresses
from testbed.fabric import srv6
from testbed.fabric.netlink import (
    NLM_F_ACK,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NLM_F_REQUEST,
    Request,
)
from testbed.fabric.plan import (
    BLOCK_BITS,
    TICK_NS,
    Address,
    Filter,
    HtbClass,
    Interface,
    Neighbour,
    Qdisc,
    Route,
    Sid,
)

plugins["bfifo"] = sched_pfifo  # the same options, a limit; pyroute2 has no name for it

AF_INET6 = 10
TABLE_MAIN = 254
PROTOCOL_STATIC = 4
TYPE_UNICAST, TYPE_BLACKHOLE = 1, 6
IFF_UP = 1
IFF_LOWER_UP = 1 << 16
NUD_PERMANENT = 0x80
CLSACT_HOOKS = {"ingress": 0xFFFFFFF2, "egress": 0xFFFFFFF3}
BPF_PRIORITY = 1

_ETH_P_ALL_BE = 0x0300
_BPF_DIRECT_ACTION = 1
_NO_LIMIT_PACKETS = 1 << 20
_EMPTY_SIZE_TABLE = struct.pack("=HH24x", 28, 1)  # TCA_STAB_BASE: struct tc_sizespec, all zero
_LINKLAYER_ETHERNET = 1
_IFA_F_NODAD = 0x02
_HTB_VERSION, _HTB_R2Q = 3, 10

_TC_IFINDEX_AT = 20  # nlmsghdr 16, family and padding 4

_CREATE = NLM_F_CREATE | NLM_F_EXCL
_REPLACE = NLM_F_CREATE | NLM_F_REPLACE


def _request(
    message: nlmsg,
    kind: int,
    flags: int,
    about: str,
    fields: dict[str, Any],
    attributes: list[tuple[str, Any]],
    tolerated: frozenset[int] = frozenset(),
) -> Request:
    message.update(fields)
    message["attrs"] = attributes
    message["header"] = {"type": kind, "flags": NLM_F_REQUEST | flags, "sequence_number": 0, "pid": 0}
    message.encode()
    return Request(bytes(message.data), about, tolerated)


def veth_pair(near: Interface, near_namespace_fd: int, far: Interface, far_namespace_fd: int) -> Request:
    """Both ends of a link in their namespaces, in one request."""
    far_end = {"index": far.ifindex, "attrs": _device_attributes(far, far_namespace_fd)}
    info = {"attrs": [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", far_end)]})]}
    attributes = [*_device_attributes(near, near_namespace_fd), ("IFLA_LINKINFO", info)]
    about = f"link {near.device}-{far.device}"
    return _request(ifinfmsg(), RTM_NEWLINK, NLM_F_ACK | _CREATE, about, {"index": near.ifindex}, attributes)


def _device_attributes(interface: Interface, namespace_fd: int) -> list[tuple[str, Any]]:
    return [
        ("IFLA_IFNAME", interface.device),
        ("IFLA_MTU", interface.mtu),
        ("IFLA_ADDRESS", interface.mac),
        ("IFLA_NUM_TX_QUEUES", 1),
        ("IFLA_NUM_RX_QUEUES", 1),
        ("IFLA_NET_NS_FD", namespace_fd),
    ]


@cache
def link_named(device: str) -> Request:
    """Ask for one device by its name; the answer is a link message."""
    return _request(ifinfmsg(), RTM_GETLINK, 0, f"device {device}", {}, [("IFLA_IFNAME", device)])


def set_up(ifindex: int, up: bool, about: str) -> Request:
    """Set a device administratively up or down."""
    fields = {"index": ifindex, "flags": IFF_UP if up else 0, "change": IFF_UP}
    return _request(ifinfmsg(), RTM_NEWLINK, NLM_F_ACK, about, fields, [])


def address(item: Address, ifindex: int) -> Request:
    """An address without duplicate address detection."""
    value, _, length = item.address.partition("/")
    attributes = [("IFA_ADDRESS", value), ("IFA_LOCAL", value)]
    fields = {"family": AF_INET6, "prefixlen": int(length), "flags": _IFA_F_NODAD, "index": ifindex}
    about = f"address {item.address} on {item.device}"
    return _request(ifaddrmsg(), RTM_NEWADDR, NLM_F_ACK | _REPLACE, about, fields, attributes)


def neighbour(item: Neighbour, ifindex: int) -> Request:
    """A permanent neighbour entry."""
    attributes = [("NDA_DST", item.address), ("NDA_LLADDR", item.mac)]
    fields = {"family": AF_INET6, "ifindex": ifindex, "state": NUD_PERMANENT}
    about = f"neighbour {item.address} on {item.device}"
    return _request(ndmsg(), RTM_NEWNEIGH, NLM_F_ACK | _REPLACE, about, fields, attributes)


def route(item: Route, ifindex: int | None) -> Request:
    """A static route in the main table; `ifindex` is None for a blackhole."""
    attributes: list[tuple[str, Any]] = []
    if ifindex is not None:
        attributes.append(("RTA_OIF", ifindex))
    if item.via:
        attributes.append(("RTA_GATEWAY", item.via))
    if item.segment:
        attributes += srv6.encapsulate(item.segment)
    kind = TYPE_BLACKHOLE if item.kind == "blackhole" else TYPE_UNICAST
    return _route(item.dst, kind, attributes)


def sid(item: Sid, ifindex: int) -> Request:
    """A local SID as a route of the main table."""
    if item.action == "End":
        attributes = srv6.next_csid(BLOCK_BITS, plan_of_addresses.USID_BITS)
    else:
        attributes = srv6.decapsulate(item.table)
    return _route(item.dst, TYPE_UNICAST, [("RTA_OIF", ifindex), *attributes])


def _route(dst: str, kind: int, attributes: list[tuple[str, Any]]) -> Request:
    prefix, _, length = dst.partition("/")
    fields = {"family": AF_INET6, "dst_len": int(length), "table": TABLE_MAIN, "proto": PROTOCOL_STATIC, "type": kind}
    all_attributes = [("RTA_DST", prefix), *attributes]
    return _request(srv6.Srv6Route(), RTM_NEWROUTE, NLM_F_ACK | _REPLACE, f"route {dst}", fields, all_attributes)


def qdisc(item: Qdisc, ifindex: int, *, instead: bool = False) -> Request:
    """A queueing discipline. It has to be absent (HTB is not replaced in place); a leaf may go `instead` of another."""
    return _on_device(_qdisc(replace(item, device=""), instead), item.kind, item.device, ifindex)


@cache
def _qdisc(item: Qdisc, instead: bool) -> bytes:
    attributes: list[tuple[str, Any]] = [("TCA_KIND", item.kind)]
    if item.kind == "htb":
        init = {"version": _HTB_VERSION, "rate2quantum": _HTB_R2Q, "defcls": item.default_class}
        attributes.append(("TCA_OPTIONS", {"attrs": [("TCA_HTB_INIT", init | {"debug": 0, "direct_pkts": 0})]}))
    elif item.kind == "bfifo":
        attributes.append(("TCA_OPTIONS", {"limit": item.limit_bytes}))
    elif item.kind == "netem":
        times = {"delay": item.delay_ns // TICK_NS, "jitter": item.jitter_ns // TICK_NS}
        attributes.append(("TCA_OPTIONS", {"limit": _NO_LIMIT_PACKETS, "loss": 0, "gap": 0, "duplicate": 0, **times}))
    if item.size_table:
        attributes.append(("TCA_STAB", _EMPTY_SIZE_TABLE))
    return _traffic(RTM_NEWQDISC, attributes, item.handle, item.parent, flags=_REPLACE if instead else _CREATE)


def htb_class(item: HtbClass, ifindex: int, *, change: bool = False) -> Request:
    """A new class, or another rate for one that is there. The quantum keeps HTB from warning about r2q."""
    about = f"htb class {item.classid & 0xFFFF:x}"
    return _on_device(_htb_class(replace(item, device=""), change), about, item.device, ifindex)


@cache
def _htb_class(item: HtbClass, change: bool) -> bytes:
    rate, ceil = item.rate_bps // 8, item.ceil_bps // 8
    limit = (1 << 32) - 1
    parameters = {
        "rate": min(rate, limit),
        "ceil": min(ceil, limit),
        "rate___reserved": _LINKLAYER_ETHERNET,  # pyroute2's name for the link layer; said, no rate table is needed
        "ceil___reserved": _LINKLAYER_ETHERNET,
        "buffer": item.burst_ns // TICK_NS,
        "cbuffer": item.ceil_burst_ns // TICK_NS,
        "quantum": item.quantum_bytes,
        "prio": item.prio,
    }
    options: list[tuple[str, Any]] = [("TCA_HTB_PARMS", parameters)]
    if rate > limit:
        options.append(("TCA_HTB_RATE64", rate))
    if ceil > limit:
        options.append(("TCA_HTB_CEIL64", ceil))
    attributes = [("TCA_KIND", "htb"), ("TCA_OPTIONS", {"attrs": options})]
    return _traffic(RTM_NEWTCLASS, attributes, item.classid, item.parent, flags=0 if change else _CREATE)


def program_filter(item: Filter, ifindex: int, program_fd: int) -> Request:
    """An eBPF program at a clsact hook of a port."""
    return _on_device(
        _program_filter(item.hook, item.program, program_fd), f"{item.hook} program", item.device, ifindex
    )


@cache
def _program_filter(hook: str, name: str, program_fd: int) -> bytes:
    options = [("TCA_BPF_FD", program_fd), ("TCA_BPF_NAME", name), ("TCA_BPF_FLAGS", _BPF_DIRECT_ACTION)]
    attributes = [("TCA_KIND", "bpf"), ("TCA_OPTIONS", {"attrs": options})]
    return _traffic(RTM_NEWTFILTER, attributes, 1, CLSACT_HOOKS[hook], BPF_PRIORITY << 16 | _ETH_P_ALL_BE)


def _traffic(
    kind: int, attributes: list[tuple[str, Any]], handle: int, parent: int, info: int = 0, *, flags: int = _CREATE
) -> bytes:
    """A traffic control message for no device yet: all ports of a kind have the same ones but for the ifindex."""
    fields = {"family": 0, "index": 0, "handle": handle, "parent": parent, "info": info}
    return _request(tcmsg(), kind, NLM_F_ACK | flags, "", fields, attributes).message


def _on_device(message: bytes, about: str, device: str, ifindex: int) -> Request:
    with_ifindex = message[:_TC_IFINDEX_AT] + struct.pack("=i", ifindex) + message[_TC_IFINDEX_AT + 4 :]
    return Request(with_ifindex, f"{about} on {device}")


def _dump(message: nlmsg, kind: int, about: str, fields: dict[str, Any], *tolerated: int) -> Request:
    return _request(message, kind, NLM_F_DUMP, f"reading {about}", fields, [], frozenset(tolerated))


LINKS = _dump(ifinfmsg(), RTM_GETLINK, "devices", {})
ADDRESSES = _dump(ifaddrmsg(), RTM_GETADDR, "addresses", {"family": AF_INET6})
NEIGHBOURS = _dump(ndmsg(), RTM_GETNEIGH, "neighbours", {"family": AF_INET6})
ROUTES = _dump(srv6.Srv6Route(), RTM_GETROUTE, "routes", {"family": AF_INET6})
QDISCS = _dump(tcmsg(), RTM_GETQDISC, "qdiscs", {})


@cache
def routes_of(ifindex: int) -> Request:
    """Dump the routes of the main table that use a device (the kernel filters)."""
    attributes = [("RTA_OIF", ifindex)]
    fields = {"family": AF_INET6, "table": TABLE_MAIN}
    return _request(srv6.Srv6Route(), RTM_GETROUTE, NLM_F_DUMP, "reading routes", fields, attributes)


@cache
def classes_of(ifindex: int) -> Request:
    """Dump the classes of a device."""
    return _dump(tcmsg(), RTM_GETTCLASS, "classes", {"index": ifindex})


@cache
def filters_of(ifindex: int, parent: int) -> Request:
    """Dump the filters of a device below `parent`; a device without that qdisc has none."""
    return _dump(tcmsg(), RTM_GETTFILTER, "filters", {"index": ifindex, "parent": parent}, errno.EINVAL)
