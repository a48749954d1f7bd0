"""Plan objects as rtnetlink requests: each function encodes one object.

Everything is `create or replace` where the kernel has it, so that applying a plan again (repair, undoing a fault)
leads to the same state. Nothing is sent here. (pyroute2 takes ten times as long, and drops the flavours and counters of
SIDs; the tests read with it what is made here.)
"""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import replace
from functools import cache

from agents.wire import address as plan_of_addresses
from testbed.fabric import rtnl, srv6
from testbed.fabric.addressing import BLOCK_BITS
from testbed.fabric.attributes import nested, raw, text, u32, u64
from testbed.fabric.netlink import (
    NLM_F_ACK,
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NLM_F_REQUEST,
    Request,
)
from testbed.fabric.objects import Address, Filter, Hop, HtbClass, Interface, Neighbour, Qdisc, Route, Rule, Sid
from testbed.fabric.plan import HOOK_BLOCKS, TICK_NS

BPF_PRIORITY = 1
OWN = "lo"  # where, in the words of a rule, those packets come in that the node itself sends

_NO_LIMIT_PACKETS = 1 << 20
_EMPTY_SIZE_TABLE = raw(rtnl.TCA_STAB_BASE, rtnl.TC_SIZESPEC.pack(0, 0, 0, 0, 0, 0, 0, 0))
_HTB_VERSION, _HTB_R2Q = 3, 10
_CELL_LOG_UNSET, _CELL_ALIGN_UNSET = 3, -1
_UINT32_MAX = (1 << 32) - 1

_TC_IFINDEX_AT = rtnl.NLMSGHDR.size + 4

_CREATE = NLM_F_CREATE | NLM_F_EXCL
_REPLACE = NLM_F_CREATE | NLM_F_REPLACE
_NONE_TOLERATED: frozenset[int] = frozenset()


def _request(kind: int, flags: int, about: str, body: bytes, tolerated: frozenset[int] = _NONE_TOLERATED) -> Request:
    header = rtnl.NLMSGHDR.pack(rtnl.NLMSGHDR.size + len(body), kind, NLM_F_REQUEST | flags, 0, 0)
    return Request(header + body, about, tolerated)


def _packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6, address)


def veth_pair(near: Interface, near_namespace_fd: int, far: Interface, far_namespace_fd: int) -> Request:
    """Both ends of a link in their namespaces, in one request."""
    far_end = _link_header(far.ifindex) + _device_attributes(far, far_namespace_fd)
    info = nested(
        rtnl.IFLA_LINKINFO,
        text(rtnl.IFLA_INFO_KIND, "veth"),
        nested(rtnl.IFLA_INFO_DATA, raw(rtnl.VETH_INFO_PEER, far_end)),
    )
    body = _link_header(near.ifindex) + _device_attributes(near, near_namespace_fd) + info
    return _request(rtnl.RTM_NEWLINK, NLM_F_ACK | _CREATE, f"link {near.device}-{far.device}", body)


def _link_header(ifindex: int, flags: int = 0, change: int = 0) -> bytes:
    return rtnl.IFINFOMSG.pack(0, 0, ifindex, flags, change)


_ONE_QUEUE = u32(rtnl.IFLA_NUM_TX_QUEUES, 1) + u32(rtnl.IFLA_NUM_RX_QUEUES, 1)


def _device_attributes(interface: Interface, namespace_fd: int) -> bytes:
    return b"".join(
        (
            text(rtnl.IFLA_IFNAME, interface.device),
            u32(rtnl.IFLA_MTU, interface.mtu),
            raw(rtnl.IFLA_ADDRESS, bytes.fromhex(interface.mac.replace(":", ""))),
            _ONE_QUEUE,
            u32(rtnl.IFLA_NET_NS_FD, namespace_fd),
        )
    )


@cache
def link_named(device: str) -> Request:
    """Ask for one device by its name; the answer is a link message."""
    return _request(rtnl.RTM_GETLINK, 0, f"device {device}", _link_header(0) + text(rtnl.IFLA_IFNAME, device))


def set_up(ifindex: int, up: bool, about: str) -> Request:
    """Set a device administratively up or down."""
    return _request(rtnl.RTM_NEWLINK, NLM_F_ACK, about, _link_header(ifindex, rtnl.IFF_UP * up, rtnl.IFF_UP))


def address(item: Address, ifindex: int) -> Request:
    """An address without duplicate address detection."""
    value, _, length = item.address.partition("/")
    body = b"".join(
        (
            rtnl.IFADDRMSG.pack(rtnl.AF_INET6, int(length), rtnl.IFA_F_NODAD, 0, ifindex),
            raw(rtnl.IFA_ADDRESS, _packed(value)),
            raw(rtnl.IFA_LOCAL, _packed(value)),
        )
    )
    return _request(rtnl.RTM_NEWADDR, NLM_F_ACK | _REPLACE, f"address {item.address} on {item.device}", body)


def neighbour(item: Neighbour, ifindex: int) -> Request:
    """A permanent neighbour entry."""
    body = b"".join(
        (
            rtnl.NDMSG.pack(rtnl.AF_INET6, ifindex, rtnl.NUD_PERMANENT, 0, 0),
            raw(rtnl.NDA_DST, _packed(item.address)),
            raw(rtnl.NDA_LLADDR, bytes.fromhex(item.mac.replace(":", ""))),
        )
    )
    return _request(rtnl.RTM_NEWNEIGH, NLM_F_ACK | _REPLACE, f"neighbour {item.address} on {item.device}", body)


def route(item: Route, ifindex: int | None) -> Request:
    """A static route in the main table; `ifindex` is None for a blackhole."""
    attributes = b""
    if ifindex is not None:
        attributes += u32(rtnl.RTA_OIF, ifindex)
    if item.via:
        attributes += raw(rtnl.RTA_GATEWAY, _packed(item.via))
    if item.segment:
        attributes += srv6.encapsulate(item.segment)
    kind = rtnl.RTN_BLACKHOLE if item.kind == "blackhole" else rtnl.RTN_UNICAST
    return _route(item.dst, kind, attributes)


def hop(item: Hop, ifindex: int) -> Request:
    """One next hop more for its destination; no error when it is there already."""
    attributes = u32(rtnl.RTA_OIF, ifindex) + raw(rtnl.RTA_GATEWAY, _packed(item.via))
    return _route(item.dst, rtnl.RTN_UNICAST, attributes, NLM_F_CREATE | NLM_F_APPEND, frozenset({errno.EEXIST}))


def rule(item: Rule, there: bool) -> Request:
    """Put a rule before the routing tables, or take it away; no error when it is so already."""
    to_main = item.action == "main"
    table, action = (rtnl.RT_TABLE_MAIN, rtnl.FR_ACT_TO_TBL) if to_main else (0, rtnl.FR_ACT_BLACKHOLE)
    body = rtnl.FIB_RULE_HDR.pack(rtnl.AF_INET6, 0, 0, 0, table, 0, 0, action, 0)
    body += u32(rtnl.FRA_PRIORITY, item.priority)
    if item.own:
        body += text(rtnl.FRA_IIFNAME, OWN)
    kind, flags, settled = (rtnl.RTM_NEWRULE, _CREATE, errno.EEXIST) if there else (rtnl.RTM_DELRULE, 0, errno.ENOENT)
    return _request(kind, NLM_F_ACK | flags, f"rule {item.priority}", body, frozenset({settled}))


def sid(item: Sid, ifindex: int) -> Request:
    """A local SID as a route of the main table."""
    if item.action == "End":
        behaviour = srv6.next_csid(BLOCK_BITS, plan_of_addresses.USID_BITS)
    else:
        behaviour = srv6.decapsulate(item.table)
    return _route(item.dst, rtnl.RTN_UNICAST, u32(rtnl.RTA_OIF, ifindex) + behaviour)


def _route(
    dst: str, kind: int, attributes: bytes, flags: int = _REPLACE, tolerated: frozenset[int] = _NONE_TOLERATED
) -> Request:
    prefix, _, length = dst.partition("/")
    body = b"".join(
        (_route_header(int(length), kind, rtnl.RTPROT_STATIC), raw(rtnl.RTA_DST, _packed(prefix)), attributes)
    )
    return _request(rtnl.RTM_NEWROUTE, NLM_F_ACK | flags, f"route {dst}", body, tolerated)


def _route_header(dst_bits: int = 0, kind: int = 0, protocol: int = 0, table: int = rtnl.RT_TABLE_MAIN) -> bytes:
    return rtnl.RTMSG.pack(rtnl.AF_INET6, dst_bits, 0, 0, table, protocol, 0, kind, 0)


def qdisc(item: Qdisc, ifindex: int, *, instead: bool = False) -> Request:
    """A queueing discipline. It has to be absent (HTB is not replaced in place); a leaf may go `instead` of another."""
    return _on_device(_qdisc(replace(item, device=""), instead), item.kind, item.device, ifindex)


@cache
def _qdisc(item: Qdisc, instead: bool) -> bytes:
    attributes = text(rtnl.TCA_KIND, item.kind)
    if item.kind == "htb":
        init = rtnl.TC_HTB_GLOB.pack(_HTB_VERSION, _HTB_R2Q, item.default_class, 0, 0)
        attributes += nested(rtnl.TCA_OPTIONS, raw(rtnl.TCA_HTB_INIT, init))
    elif item.kind == "bfifo":
        attributes += raw(rtnl.TCA_OPTIONS, rtnl.TC_FIFO_QOPT.pack(item.limit_bytes))
    elif item.kind == "netem":
        times = item.delay_ns // TICK_NS, item.jitter_ns // TICK_NS
        attributes += raw(rtnl.TCA_OPTIONS, rtnl.TC_NETEM_QOPT.pack(times[0], _NO_LIMIT_PACKETS, 0, 0, 0, times[1]))
    if item.ingress_block:
        attributes += u32(rtnl.TCA_INGRESS_BLOCK, item.ingress_block)
    if item.egress_block:
        attributes += u32(rtnl.TCA_EGRESS_BLOCK, item.egress_block)
    if item.size_table:
        attributes += nested(rtnl.TCA_STAB, _EMPTY_SIZE_TABLE)
    return _traffic(rtnl.RTM_NEWQDISC, attributes, item.handle, item.parent, flags=_REPLACE if instead else _CREATE)


def no_qdisc(parent: int, device: str, ifindex: int) -> Request:
    """No queueing discipline at the root or the clsact hook of a device; no error when there is none."""
    body = rtnl.TCMSG.pack(0, ifindex, 0, parent, 0)
    tolerated = frozenset({errno.ENOENT, errno.EINVAL})
    return _request(rtnl.RTM_DELQDISC, NLM_F_ACK, f"no qdisc on {device}", body, tolerated)


def htb_class(item: HtbClass, ifindex: int, *, change: bool = False) -> Request:
    """A new class, or another rate for one that is there. The quantum keeps HTB from warning about r2q."""
    about = f"htb class {item.classid & 0xFFFF:x}"
    return _on_device(_htb_class(replace(item, device=""), change), about, item.device, ifindex)


def _rate(bytes_per_s: int) -> bytes:
    # with the link layer said, the kernel needs no table of times
    return rtnl.TC_RATESPEC.pack(
        _CELL_LOG_UNSET, rtnl.TC_LINKLAYER_ETHERNET, 0, _CELL_ALIGN_UNSET, 0, min(bytes_per_s, _UINT32_MAX)
    )


@cache
def _htb_class(item: HtbClass, change: bool) -> bytes:
    rate, ceil = item.rate_bps // 8, item.ceil_bps // 8
    bursts = item.burst_ns // TICK_NS, item.ceil_burst_ns // TICK_NS
    parameters = rtnl.TC_HTB_OPT.pack(_rate(rate), _rate(ceil), *bursts, item.quantum_bytes, 0, item.prio)
    options = raw(rtnl.TCA_HTB_PARMS, parameters)
    if rate > _UINT32_MAX:
        options += u64(rtnl.TCA_HTB_RATE64, rate)
    if ceil > _UINT32_MAX:
        options += u64(rtnl.TCA_HTB_CEIL64, ceil)
    attributes = text(rtnl.TCA_KIND, "htb") + nested(rtnl.TCA_OPTIONS, options)
    return _traffic(rtnl.RTM_NEWTCLASS, attributes, item.classid, item.parent, flags=0 if change else _CREATE)


@cache
def program_filter(item: Filter, program_fd: int) -> Request:
    """An eBPF program in the block of a hook, which some port has to share; no error when there is one already."""
    options = nested(
        rtnl.TCA_OPTIONS,
        u32(rtnl.TCA_BPF_FD, program_fd),
        text(rtnl.TCA_BPF_NAME, item.program),
        u32(rtnl.TCA_BPF_FLAGS, rtnl.TCA_BPF_FLAG_ACT_DIRECT),
    )
    info = BPF_PRIORITY << 16 | socket.htons(rtnl.ETH_P_ALL)
    header = rtnl.TCMSG.pack(0, rtnl.TCM_IFINDEX_MAGIC_BLOCK, 1, HOOK_BLOCKS[item.hook], info)
    body = header + text(rtnl.TCA_KIND, "bpf") + options
    tolerated = frozenset({errno.EEXIST})
    return _request(rtnl.RTM_NEWTFILTER, NLM_F_ACK | _CREATE, f"{item.hook} program", body, tolerated)


def _traffic(kind: int, attributes: bytes, handle: int, parent: int, *, flags: int = _CREATE) -> bytes:
    """A traffic control message for no device yet: all ports of a kind have the same ones but for the ifindex."""
    return _request(kind, NLM_F_ACK | flags, "", rtnl.TCMSG.pack(0, 0, handle, parent, 0) + attributes).message


def _on_device(message: bytes, about: str, device: str, ifindex: int) -> Request:
    with_ifindex = message[:_TC_IFINDEX_AT] + struct.pack("=i", ifindex) + message[_TC_IFINDEX_AT + 4 :]
    return Request(with_ifindex, f"{about} on {device}")


def _dump(kind: int, about: str, body: bytes, *tolerated: int) -> Request:
    return _request(kind, NLM_F_DUMP, f"reading {about}", body, frozenset(tolerated))


_NO_STATISTICS = u32(rtnl.IFLA_EXT_MASK, rtnl.RTEXT_FILTER_SKIP_STATS)

LINKS = _dump(rtnl.RTM_GETLINK, "devices", _link_header(0))
LINKS_WITHOUT_STATISTICS = _dump(rtnl.RTM_GETLINK, "devices", _link_header(0) + _NO_STATISTICS)
ADDRESSES = _dump(rtnl.RTM_GETADDR, "addresses", rtnl.IFADDRMSG.pack(rtnl.AF_INET6, 0, 0, 0, 0))
NEIGHBOURS = _dump(rtnl.RTM_GETNEIGH, "neighbours", rtnl.NDMSG.pack(rtnl.AF_INET6, 0, 0, 0, 0))
ROUTES = _dump(rtnl.RTM_GETROUTE, "routes", _route_header())
RULES = _dump(rtnl.RTM_GETRULE, "rules", rtnl.FIB_RULE_HDR.pack(rtnl.AF_INET6, 0, 0, 0, 0, 0, 0, 0, 0))
QDISCS = _dump(rtnl.RTM_GETQDISC, "qdiscs", rtnl.TCMSG.pack(0, 0, 0, 0, 0))


@cache
def routes_of(ifindex: int) -> Request:
    """Dump the routes of the main table that use a device (the kernel filters)."""
    return _dump(rtnl.RTM_GETROUTE, "routes", _route_header() + u32(rtnl.RTA_OIF, ifindex))


@cache
def classes_of(ifindex: int) -> Request:
    """Dump the classes of a device."""
    return _dump(rtnl.RTM_GETTCLASS, "classes", rtnl.TCMSG.pack(0, ifindex, 0, 0, 0))


@cache
def filters_of(block: int) -> Request:
    """Dump the filters of a shared block; one that no port shares has none."""
    body = rtnl.TCMSG.pack(0, rtnl.TCM_IFINDEX_MAGIC_BLOCK, 0, block, 0)
    return _dump(rtnl.RTM_GETTFILTER, "filters", body, errno.EINVAL)
