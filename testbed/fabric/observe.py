"""Kernel -> the same data as the plan, and what differs between the two.

Only what people or the lab configured is taken: not the routes, addresses and queues that the kernel makes on its own.
A port without carrier keeps its routes, so carrier is not part of this state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from testbed.fabric import messages, netns, srv6
from testbed.fabric.netlink import Kernel, RtSocket
from testbed.fabric.plan import (
    ROOT_HANDLE,
    TICK_NS,
    Address,
    FabricPlan,
    Filter,
    HtbClass,
    Interface,
    Neighbour,
    NodePlan,
    Qdisc,
    Route,
    Sid,
    namespace_name,
)
from testbed.fabric.portmap import PortMap
from testbed.topology.port_settings import PortSettings

_PROTOCOL_KERNEL = 2
_LOOPBACK = 1
_ACTIONS = {srv6.ACTION_END: "End", srv6.ACTION_END_DT6: "End.DT6"}

SECTIONS = ("interfaces", "addresses", "neighbours", "routes", "sids", "qdiscs", "classes", "filters", "ports")

# What makes two objects of a section the same one; the other fields are its settings.
_IDENTITY = {
    "interfaces": ("device",),
    "addresses": ("device", "address"),
    "neighbours": ("device", "address"),
    "routes": ("dst",),
    "sids": ("dst",),
    "qdiscs": ("device", "handle"),
    "classes": ("device", "classid"),
    "filters": ("device", "hook"),
    "ports": ("device",),
}


def _decoded(kind: type, data: bytes) -> Any:
    message = kind(data)
    message.decode()
    return message


def _interfaces(socket: RtSocket) -> list[Interface]:
    found = []
    for data in socket.dump(messages.LINKS):
        message = _decoded(ifinfmsg, data)
        info = message.get_attr("IFLA_LINKINFO")
        kind = info.get_attr("IFLA_INFO_KIND") if info is not None else None
        found.append(
            Interface(
                device=message.get_attr("IFLA_IFNAME"),
                ifindex=message["index"],
                kind=kind or "loopback",
                mac=message.get_attr("IFLA_ADDRESS"),
                mtu=message.get_attr("IFLA_MTU"),
                peer_ifindex=message.get_attr("IFLA_LINK") if kind == "veth" else None,
                up=bool(message["flags"] & messages.IFF_UP),
            )
        )
    return found


def _addresses(socket: RtSocket, device: Callable[[int], str]) -> Iterable[Address]:
    for data in socket.dump(messages.ADDRESSES):
        message = _decoded(ifaddrmsg, data)
        if message["index"] != _LOOPBACK:
            yield Address(device(message["index"]), f"{message.get_attr('IFA_ADDRESS')}/{message['prefixlen']}")


def _neighbours(socket: RtSocket, device: Callable[[int], str]) -> Iterable[Neighbour]:
    for data in socket.dump(messages.NEIGHBOURS):
        message = _decoded(ndmsg, data)
        if message["state"] == messages.NUD_PERMANENT:
            yield Neighbour(device(message["ifindex"]), message.get_attr("NDA_DST"), message.get_attr("NDA_LLADDR"))


def _routes(socket: RtSocket, device: Callable[[int], str]) -> Iterable[Route | Sid]:
    for data in socket.dump(messages.ROUTES):
        message = _decoded(srv6.Srv6Route, data)
        if message["table"] == messages.TABLE_MAIN and message["proto"] != _PROTOCOL_KERNEL:
            yield _route(message, device)


def _route(message: Any, device: Callable[[int], str]) -> Route | Sid:
    dst = f"{message.get_attr('RTA_DST') or '::'}/{message['dst_len']}"
    if message["type"] == messages.TYPE_BLACKHOLE:
        return Route(dst, "", kind="blackhole")
    name = device(message.get_attr("RTA_OIF"))
    encapsulation = message.get_attr("RTA_ENCAP_TYPE")
    if encapsulation == srv6.LWTUNNEL_ENCAP_SEG6_LOCAL:
        return _sid(dst, name, message.get_attr("RTA_ENCAP"))
    segment = ""
    if encapsulation == srv6.LWTUNNEL_ENCAP_SEG6:
        mode, segment = srv6.read_segment(message.get_attr("RTA_ENCAP").get_attr("SEG6_IPTUNNEL_SRH"))
        if mode != srv6.MODE_ENCAP_REDUCED:
            segment += f" (mode {mode})"
    return Route(dst, name, message.get_attr("RTA_GATEWAY") or "", segment=segment)


def _sid(dst: str, device: str, local: Any) -> Sid:
    action = _ACTIONS.get(local.get_attr("SEG6_LOCAL_ACTION"), "other")
    flavours = local.get_attr("SEG6_LOCAL_FLAVORS")
    if action == "End" and not (flavours and flavours.get_attr("SEG6_LOCAL_FLV_OPERATION") & srv6.FLAVOUR_NEXT_CSID):
        action = "End without NEXT-CSID"
    return Sid(dst, device, action, local.get_attr("SEG6_LOCAL_TABLE") or 0)  # type: ignore[arg-type]


def _qdiscs(socket: RtSocket, device: Callable[[int], str]) -> Iterable[Qdisc]:
    for data in socket.dump(messages.QDISCS):
        message = _decoded(tcmsg, data)
        if message["handle"] == 0:  # the kernel's own default
            continue
        kind, options = message.get_attr("TCA_KIND"), message.get_attr("TCA_OPTIONS")
        yield Qdisc(
            device(message["index"]),
            kind,
            message["handle"],
            message["parent"],
            limit_bytes=options["limit"] if kind == "bfifo" else 0,
            default_class=options.get_attr("TCA_HTB_INIT")["defcls"] if kind == "htb" else 0,
            size_table=message.get_attr("TCA_STAB") is not None,
            delay_ns=options["delay"] * TICK_NS if kind == "netem" else 0,
            jitter_ns=options["jitter"] * TICK_NS if kind == "netem" else 0,
        )


def _classes(socket: RtSocket, name: str, ifindex: int) -> Iterable[HtbClass]:
    for data in socket.dump(messages.classes_of(ifindex)):
        message = _decoded(tcmsg, data)
        options = message.get_attr("TCA_OPTIONS")
        values = options.get_attr("TCA_HTB_PARMS")
        yield HtbClass(
            name,
            message["handle"],
            # a class on top has no parent class; the kernel then says "root"
            ROOT_HANDLE if message["parent"] == 0xFFFFFFFF else message["parent"],
            values["prio"],
            8 * (options.get_attr("TCA_HTB_RATE64") or values["rate"]),
            8 * (options.get_attr("TCA_HTB_CEIL64") or values["ceil"]),
            values["buffer"] * TICK_NS,
            values["cbuffer"] * TICK_NS,
            values["quantum"],
        )


def _filters(socket: RtSocket, name: str, ifindex: int, hook: Literal["ingress", "egress"]) -> Iterable[Filter]:
    for data in socket.dump(messages.filters_of(ifindex, messages.CLSACT_HOOKS[hook])):
        message = _decoded(tcmsg, data)
        options = message.get_attr("TCA_OPTIONS")
        if options is not None and message.get_attr("TCA_KIND") == "bpf":
            yield Filter(name, hook, options.get_attr("TCA_BPF_NAME"))


def node(kernel: Kernel, name: str, sysctls: Iterable[str] = (), ports: PortMap | None = None) -> NodePlan:
    """What the namespace of a node holds now, in the plan's form, each section sorted.

    Of sysctls those named; what its ports do with packets only with the lab's port map.
    """
    socket = kernel[name]
    namespace = namespace_name(kernel.lab, name)
    interfaces = _interfaces(socket)
    names = {item.ifindex: item.device for item in interfaces}

    def device(ifindex: int) -> str:
        return names.get(ifindex, f"ifindex {ifindex}")

    routes = list(_routes(socket, device))
    qdiscs = list(_qdiscs(socket, device))
    with_kind = {(item.device, item.kind) for item in qdiscs}
    classes: list[HtbClass] = []
    filters: list[Filter] = []
    for item in interfaces:
        if (item.device, "htb") in with_kind:
            classes += _classes(socket, item.device, item.ifindex)
        if (item.device, "clsact") in with_kind:
            filters += _filters(socket, item.device, item.ifindex, "ingress")
            filters += _filters(socket, item.device, item.ifindex, "egress")
    return NodePlan(
        node=name,
        namespace=namespace,
        sysctls=netns.read_sysctls(namespace, list(sysctls)),
        interfaces=tuple(sorted(interfaces, key=lambda item: item.ifindex)),
        addresses=tuple(sorted(_addresses(socket, device))),
        neighbours=tuple(sorted(_neighbours(socket, device))),
        routes=tuple(sorted(item for item in routes if isinstance(item, Route))),
        sids=tuple(sorted(item for item in routes if isinstance(item, Sid))),
        qdiscs=tuple(sorted(qdiscs)),
        classes=tuple(sorted(classes)),
        filters=tuple(sorted(filters)),
        ports=None if ports is None else tuple(_ports(ports, interfaces, qdiscs)),
    )


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

    def __str__(self) -> str:
        return f"{self.node}: {self.section}: {self.name}: {self.reason}"


def compare(desired: NodePlan, observed: NodePlan) -> list[Difference]:
    """What has to change so that a node is as planned; empty when it is. What was not read is not compared."""
    found = []
    for section in SECTIONS:
        if getattr(observed, section) is None:
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
