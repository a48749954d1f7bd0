"""Names that people type -> the objects of a lab, with the nearest name when there is none."""

from __future__ import annotations

from dataclasses import dataclass

from agents.wire import ev as entropy
from testbed.topology.clos import Clos, Link, Node, link_name
from testbed.topology.errors import InputError, closest, nearest


@dataclass(frozen=True, slots=True)
class EvPath:
    """The plane and T1 that an EV names in a lab; the T1 means nothing inside one rack."""

    ev: int
    plane: int
    t1: int


def find_node(clos: Clos, name: str) -> Node:
    """The host or switch of that name. Raises InputError with the nearest name."""
    if name in clos.nodes:
        return clos.nodes[name]
    raise InputError(f"lab {clos.spec.name} has no node {name!r}", nearest(name, clos.nodes) or _node_names(clos))


def find_host(clos: Clos, name: str) -> Node:
    """The host of that name. Raises InputError with the nearest host."""
    node = clos.nodes.get(name)
    if node is not None and node.kind == "host":
        return node
    hosts = [host.name for host in clos.hosts]
    raise InputError(
        f"{name!r} is not a host of lab {clos.spec.name}",
        nearest(name, hosts) or f"hosts are {hosts[0]} to {hosts[-1]}",
    )


def find_link(clos: Clos, name: str) -> Link:
    """The link of that name, its ends in either order. Raises InputError with the nearest name."""
    if name in clos.links:
        return clos.links[name]
    turned = {link_name(link.b.node, link.a.node): link for link in clos.links.values()}
    if name in turned:
        return turned[name]
    match = closest(name, [*clos.links, *turned])
    if match is None:
        hint = f"a link is named by its ends, like {next(iter(clos.links))!r}"
    else:
        hint = f"did you mean {(turned.get(match) or clos.links[match]).name!r}?"
    raise InputError(f"lab {clos.spec.name} has no link {name!r}", hint)


def find_ev_path(clos: Clos, ev: int) -> EvPath:
    """Where an EV leads in this lab. Raises InputError for a plane or T0 uplink that the lab does not have."""
    if not 0 <= ev < 1 << 32:
        raise InputError(f"EV {ev} is not a 32-bit number")
    plane, t1 = entropy.plane_of(ev), entropy.uplink_of(ev)
    spec = clos.spec
    if plane >= spec.planes or t1 >= spec.t1s_per_plane:
        example = entropy.make(min(plane, spec.planes - 1), min(t1, spec.t1s_per_plane - 1))
        raise InputError(
            f"EV {ev:#010x} names plane {plane}, T1 {t1}; lab {spec.name} has planes 0..{spec.planes - 1} "
            f"with T1s 0..{spec.t1s_per_plane - 1}",
            f"a near one is {example:#010x}",
        )
    return EvPath(ev, plane, t1)


def _node_names(clos: Clos) -> str:
    hosts, t0s, t1s = (
        [node.name for node in clos.nodes.values() if node.kind == kind] for kind in ("host", "t0", "t1")
    )
    return f"nodes are {', '.join(f'{names[0]} to {names[-1]}' for names in (hosts, t0s, t1s))}"
