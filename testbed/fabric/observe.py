"""Kernel -> the same data as the plan, and what differs between the two.

Only what people or the lab configured is taken: not the routes, addresses and queues that the kernel makes on its own.
A port without carrier keeps its routes, so carrier is not part of this state.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from testbed.fabric import messages, netns, rtnl, srv6
from testbed.fabric.addressing import is_of_hosts, namespace_name
from testbed.fabric.attributes import as_int, as_text, pick
from testbed.fabric.netlink import Kernel, RtSocket
from testbed.fabric.objects import (
    Address,
    FabricPlan,
    Filter,
    Hop,
    HtbClass,
    Interface,
    Neighbour,
    NodePlan,
    Qdisc,
    Route,
    Rule,
    Sid,
)
from testbed.fabric.plan import HOOK_BLOCKS, ROOT_HANDLE, TICK_NS
from testbed.fabric.portmap import PortMap
from testbed.topology.port_settings import PortSettings

_LOOPBACK = 1
# Routes that nobody planned: the kernel's own, and what a routing daemon has learned.
_LEARNED = (rtnl.RTPROT_KERNEL, rtnl.RTPROT_ZEBRA, rtnl.RTPROT_BGP)
_DEFAULT_RULES = (0, 32766)  # priorities of those that every namespace is born with: local and main
_ACTIONS = {srv6.ACTION_END: "End", srv6.ACTION_END_DT6: "End.DT6"}

SECTIONS = (
    "interfaces", "addresses", "neighbours", "routes", "hops", "rules", "sids", "qdiscs", "classes", "filters", "ports",
)  # fmt: skip

# What makes two objects of a section the same one; the other fields are its settings.
_IDENTITY = {
    "interfaces": ("device",),
    "addresses": ("device", "address"),
    "neighbours": ("device", "address"),
    "routes": ("dst",),
    "hops": ("dst", "device"),
    "rules": ("priority",),
    "sids": ("dst",),
    "qdiscs": ("device", "handle"),
    "classes": ("device", "classid"),
    "filters": ("hook",),
    "ports": ("device",),
}


# Where the attributes begin in a message of each kind, after its two headers.
_AFTER_IFINFOMSG = rtnl.NLMSGHDR.size + rtnl.IFINFOMSG.size
_AFTER_IFADDRMSG = rtnl.NLMSGHDR.size + rtnl.IFADDRMSG.size
_AFTER_NDMSG = rtnl.NLMSGHDR.size + rtnl.NDMSG.size
_AFTER_RTMSG = rtnl.NLMSGHDR.size + rtnl.RTMSG.size
_AFTER_RULE = rtnl.NLMSGHDR.size + rtnl.FIB_RULE_HDR.size
_AFTER_TCMSG = rtnl.NLMSGHDR.size + rtnl.TCMSG.size


def _text(address: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET6, address)


def _interfaces(kernel: RtSocket) -> list[Interface]:
    found = []
    for data in kernel.dump(messages.LINKS_WITHOUT_STATISTICS):
        _, _, ifindex, flags, _ = rtnl.IFINFOMSG.unpack_from(data, rtnl.NLMSGHDR.size)
        values = pick(data, _AFTER_IFINFOMSG)
        kind = pick(values.get(rtnl.IFLA_LINKINFO, b"")).get(rtnl.IFLA_INFO_KIND, b"loopback")
        found.append(
            Interface(
                device=as_text(values[rtnl.IFLA_IFNAME]),
                ifindex=ifindex,
                kind=as_text(kind),  # type: ignore[arg-type]
                mac=values[rtnl.IFLA_ADDRESS].hex(":"),
                mtu=as_int(values[rtnl.IFLA_MTU]),
                peer_ifindex=as_int(values[rtnl.IFLA_LINK]) if kind == _VETH else None,
                up=bool(flags & rtnl.IFF_UP),
            )
        )
    return found


_VETH = b"veth\0"


def _addresses(kernel: RtSocket, device: Callable[[int], str]) -> Iterable[Address]:
    for data in kernel.dump(messages.ADDRESSES):
        _, length, _, _, ifindex = rtnl.IFADDRMSG.unpack_from(data, rtnl.NLMSGHDR.size)
        if ifindex != _LOOPBACK:
            yield Address(device(ifindex), f"{_text(pick(data, _AFTER_IFADDRMSG)[rtnl.IFA_ADDRESS])}/{length}")


def _neighbours(kernel: RtSocket, device: Callable[[int], str]) -> Iterable[Neighbour]:
    for data in kernel.dump(messages.NEIGHBOURS):
        _, ifindex, state, _, _ = rtnl.NDMSG.unpack_from(data, rtnl.NLMSGHDR.size)
        if state == rtnl.NUD_PERMANENT:
            values = pick(data, _AFTER_NDMSG)
            yield Neighbour(device(ifindex), _text(values[rtnl.NDA_DST]), values[rtnl.NDA_LLADDR].hex(":"))


def _routes(kernel: RtSocket, device: Callable[[int], str], up: Container[int]) -> Iterable[Route | Hop | Sid]:
    for data in kernel.dump(messages.ROUTES):
        _, length, _, _, table, protocol, _, kind, flags = rtnl.RTMSG.unpack_from(data, rtnl.NLMSGHDR.size)
        if table == rtnl.RT_TABLE_MAIN and protocol not in _LEARNED:
            values = pick(data, _AFTER_RTMSG)
            dst = f"{_text(values[rtnl.RTA_DST]) if length else '::'}/{length}"
            if is_of_hosts(dst) and rtnl.RTA_ENCAP_TYPE not in values:
                yield from _hops(dst, flags, values, device, up)
            else:
                yield _route(dst, kind, values, device)


def _hops(
    dst: str, flags: int, values: dict[int, bytes], device: Callable[[int], str], up: Container[int] = ()
) -> Iterable[Hop]:
    """The next hops of a route that take packets. Those over devices that are `up` are there also without carrier.

    (The kernel calls both dead: one whose device is down, and one without carrier where such are ignored.)
    """
    several = values.get(rtnl.RTA_MULTIPATH, b"")
    if not several:
        ifindex = as_int(values.get(rtnl.RTA_OIF, b""))
        if not flags & rtnl.RTNH_F_DEAD or ifindex in up:
            yield _hop(dst, ifindex, values, device)
    while several:
        length, flags, _, ifindex = rtnl.RTNEXTHOP.unpack_from(several)
        if not flags & rtnl.RTNH_F_DEAD or ifindex in up:
            yield _hop(dst, ifindex, pick(several[:length], rtnl.RTNEXTHOP.size), device)
        several = several[length + 3 & ~3 :]


def learned(kernel: Kernel, name: str) -> dict[str, int]:
    """What a node's routing daemon has put into its table: prefix -> number of next hops."""
    found = {}
    for data in kernel[name].dump(messages.ROUTES):
        _, length, _, _, table, protocol, _, _, flags = rtnl.RTMSG.unpack_from(data, rtnl.NLMSGHDR.size)
        if table == rtnl.RT_TABLE_MAIN and protocol == rtnl.RTPROT_BGP:
            values = pick(data, _AFTER_RTMSG)
            dst = f"{_text(values[rtnl.RTA_DST]) if length else '::'}/{length}"
            found[dst] = len(list(_hops(dst, flags, values, str)))
    return found


def _hop(dst: str, ifindex: int, values: dict[int, bytes], device: Callable[[int], str]) -> Hop:
    return Hop(dst, device(ifindex), _text(values[rtnl.RTA_GATEWAY]) if rtnl.RTA_GATEWAY in values else "")


def _rules(kernel: RtSocket) -> Iterable[Rule]:
    for data in kernel.dump(messages.RULES):
        *_, action, _ = rtnl.FIB_RULE_HDR.unpack_from(data, rtnl.NLMSGHDR.size)
        values = pick(data, _AFTER_RULE)
        priority = as_int(values.get(rtnl.FRA_PRIORITY, b""))
        if priority not in _DEFAULT_RULES:
            own = as_text(values.get(rtnl.FRA_IIFNAME, b"")) == messages.OWN
            yield Rule(priority, "blackhole" if action == rtnl.FR_ACT_BLACKHOLE else "main", own)


def _route(dst: str, kind: int, values: dict[int, bytes], device: Callable[[int], str]) -> Route | Sid:
    if kind == rtnl.RTN_BLACKHOLE:
        return Route(dst, "", kind="blackhole")
    name = device(as_int(values[rtnl.RTA_OIF]))
    encapsulation = as_int(values.get(rtnl.RTA_ENCAP_TYPE, b""))
    if encapsulation == rtnl.LWTUNNEL_ENCAP_SEG6_LOCAL:
        return _sid(dst, name, values[rtnl.RTA_ENCAP])
    segment = ""
    if encapsulation == rtnl.LWTUNNEL_ENCAP_SEG6:
        mode, segment = srv6.read_segment(values[rtnl.RTA_ENCAP])
        if mode != srv6.MODE_ENCAP_REDUCED:
            segment += f" (mode {mode})"
    via = _text(values[rtnl.RTA_GATEWAY]) if rtnl.RTA_GATEWAY in values else ""
    return Route(dst, name, via, segment=segment)


def _sid(dst: str, device: str, local: bytes) -> Sid:
    number, flavours, table = srv6.read_action(local)
    action = _ACTIONS.get(number, "other")
    if action == "End" and not flavours & srv6.FLAVOUR_NEXT_CSID:
        action = "End without NEXT-CSID"
    return Sid(dst, device, action, table)  # type: ignore[arg-type]


def _qdiscs(kernel: RtSocket, device: Callable[[int], str]) -> Iterable[Qdisc]:
    for data in kernel.dump(messages.QDISCS):
        _, ifindex, handle, parent, _ = rtnl.TCMSG.unpack_from(data, rtnl.NLMSGHDR.size)
        if handle == 0:  # the kernel's own default
            continue
        values = pick(data, _AFTER_TCMSG)
        kind = as_text(values[rtnl.TCA_KIND])
        options = _qdisc_options(kind, values.get(rtnl.TCA_OPTIONS, b""), rtnl.TCA_STAB in values)
        blocks = (as_int(values.get(number, b"")) for number in (rtnl.TCA_INGRESS_BLOCK, rtnl.TCA_EGRESS_BLOCK))
        yield Qdisc(device(ifindex), kind, handle, parent, *options, *blocks)  # type: ignore[arg-type]


@cache
def _qdisc_options(kind: str, options: bytes, size_table: bool) -> tuple[int, int, bool, int, int]:
    """The last fields of a Qdisc. Like those of classes, they are the same at all ports of a kind."""
    limit = default = delay = jitter = 0
    if kind == "bfifo":
        (limit,) = rtnl.TC_FIFO_QOPT.unpack_from(options)
    elif kind == "htb":
        _, _, default, _, _ = rtnl.TC_HTB_GLOB.unpack_from(pick(options)[rtnl.TCA_HTB_INIT])
    elif kind == "netem":
        delay, _, _, _, _, jitter = rtnl.TC_NETEM_QOPT.unpack_from(options)
    return limit, default, size_table, delay * TICK_NS, jitter * TICK_NS


def _classes(kernel: RtSocket, name: str, ifindex: int) -> Iterable[HtbClass]:
    for data in kernel.dump(messages.classes_of(ifindex)):
        _, _, handle, parent, _ = rtnl.TCMSG.unpack_from(data, rtnl.NLMSGHDR.size)
        # a class on top has no parent class; the kernel then says "root"
        above = ROOT_HANDLE if parent == 0xFFFFFFFF else parent
        yield HtbClass(name, handle, above, *_class_options(pick(data, _AFTER_TCMSG)[rtnl.TCA_OPTIONS]))


@cache
def _class_options(options: bytes) -> tuple[int, int, int, int, int, int]:
    """The last fields of an HtbClass."""
    values = pick(options)
    rate, ceil, burst, ceil_burst, quantum, _, priority = rtnl.TC_HTB_OPT.unpack_from(values[rtnl.TCA_HTB_PARMS])
    rate_bps, ceil_bps = (
        8 * (as_int(values.get(number, b"")) or rtnl.TC_RATESPEC.unpack(spec)[-1])
        for number, spec in ((rtnl.TCA_HTB_RATE64, rate), (rtnl.TCA_HTB_CEIL64, ceil))
    )
    return priority, rate_bps, ceil_bps, burst * TICK_NS, ceil_burst * TICK_NS, quantum


def _filters(kernel: RtSocket) -> Iterable[Filter]:
    for hook, block in HOOK_BLOCKS.items():
        for data in kernel.dump(messages.filters_of(block)):
            values = pick(data, _AFTER_TCMSG)
            if rtnl.TCA_OPTIONS in values and values[rtnl.TCA_KIND] == b"bpf\0":
                program = as_text(pick(values[rtnl.TCA_OPTIONS])[rtnl.TCA_BPF_NAME])
                yield Filter(hook, program)  # type: ignore[arg-type]


def node(kernel: Kernel, name: str, sysctls: Iterable[str] = (), ports: PortMap | None = None) -> NodePlan:
    """What the namespace of a node holds now, in the plan's form, each section sorted.

    Of sysctls those named; what its ports do with packets only with the lab's port map.
    """
    opened = kernel[name]
    namespace = namespace_name(kernel.lab, name)
    interfaces = _interfaces(opened)
    names = {item.ifindex: item.device for item in interfaces}

    def device(ifindex: int) -> str:
        return names.get(ifindex, f"ifindex {ifindex}")

    routes = list(_routes(opened, device, {item.ifindex for item in interfaces if item.up}))
    qdiscs = list(_qdiscs(opened, device))
    with_htb = {item.device for item in qdiscs if item.kind == "htb"}
    classes: list[HtbClass] = []
    for item in interfaces:
        if item.device in with_htb:
            classes += _classes(opened, item.device, item.ifindex)
    return NodePlan(
        node=name,
        namespace=namespace,
        sysctls=netns.read_sysctls(namespace, list(sysctls)),
        interfaces=tuple(sorted(interfaces, key=_BY_IFINDEX)),
        addresses=_in_order(_addresses(opened, device)),
        neighbours=_in_order(_neighbours(opened, device)),
        routes=_in_order(item for item in routes if isinstance(item, Route)),
        hops=_in_order(item for item in routes if isinstance(item, Hop)),
        rules=_in_order(_rules(opened)),
        sids=_in_order(item for item in routes if isinstance(item, Sid)),
        qdiscs=_in_order(qdiscs),
        classes=_in_order(classes),
        filters=_in_order(_filters(opened)),
        ports=None if ports is None else tuple(_ports(ports, interfaces, qdiscs)),
    )


_T = TypeVar("_T")


def _in_order(items: Iterable[_T]) -> tuple[_T, ...]:
    """Sorted as their fields are, without the two tuples that a comparison of two dataclasses makes."""
    found = list(items)
    if len(found) > 1:
        found.sort(key=attrgetter(*(item.name for item in fields(found[0]))))  # type: ignore[arg-type]
    return tuple(found)


_BY_IFINDEX = attrgetter("ifindex")


def _ports(ports: PortMap, interfaces: list[Interface], qdiscs: list[Qdisc]) -> Iterable[PortSettings]:
    with_programs = {item.device for item in qdiscs if item.kind == "clsact"}
    for item in interfaces:
        if item.device in with_programs:
            yield ports.settings(item.ifindex, item.device)


def snapshot(kernel: Kernel, nodes: Iterable[str], ports: PortMap | None = None) -> dict[str, NodePlan]:
    """The state of some nodes, to be compared with `==` before and after a fault."""
    return {name: node(kernel, name, ports=ports) for name in nodes}


@dataclass(frozen=True, slots=True)
class Difference:
    """One object that is not as planned, and why."""

    node: str
    section: str
    name: str
    reason: str  # "missing", "unexpected", or "mtu is 1500, planned 4400"

    @property
    def device(self) -> str:
        """Of an object of a device: which."""
        return self.name.partition(" ")[0]

    def __str__(self) -> str:
        return f"{self.node}: {self.section}: {self.name}: {self.reason}"


def compare(desired: NodePlan, observed: NodePlan) -> list[Difference]:
    """What has to change so that a node is as planned; empty when it is. What was not read is not compared."""
    found = []
    for section in SECTIONS:
        wanted, seen = getattr(desired, section), getattr(observed, section)
        if seen is None or (len(wanted or ()) == len(seen) and set(wanted or ()) == set(seen)):
            continue
        planned, there = _by_identity(desired, section), _by_identity(observed, section)
        for key, reason in _reasons(planned, there):
            found.append(Difference(desired.node, section, " ".join(map(_shown, key)), reason))
    for key, value in desired.sysctls.items():
        now = observed.sysctls.get(key)
        if now != value:
            found.append(Difference(desired.node, "sysctls", key, f"is {now}, planned {value}"))
    return found


def _by_identity(plan: NodePlan, section: str) -> dict[tuple[Any, ...], Any]:
    names = _IDENTITY[section]
    return {tuple(getattr(item, name) for name in names): item for item in getattr(plan, section) or ()}


def _shown(value: Any) -> str:
    return f"{value >> 16:x}:{value & 0xFFFF:x}" if isinstance(value, int) else str(value)


def _reasons(planned: dict[Any, Any], there: dict[Any, Any]) -> Iterable[tuple[Any, str]]:
    for key in planned.keys() - there.keys():
        yield key, "missing"
    for key in there.keys() - planned.keys():
        yield key, "unexpected"
    for key in planned.keys() & there.keys():
        want, have = planned[key], there[key]
        if want != have:
            changed = [
                f"{item.name} is {getattr(have, item.name)}, planned {getattr(want, item.name)}"
                for item in fields(want)
                if getattr(want, item.name) != getattr(have, item.name)
            ]
            yield key, "; ".join(changed)


def differences(plan: FabricPlan, kernel: Kernel, ports: PortMap | None = None) -> list[Difference]:
    """Read the whole lab back, with its port map if it is given, and compare it with its plan."""
    found = []
    for desired in plan.nodes.values():
        found += compare(desired, node(kernel, desired.node, desired.sysctls, ports))
    return found
