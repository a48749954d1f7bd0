"""What a fault happens to, as people write it -> links, nodes and EVs of a lab.

    p0t0-1:p0t1-3                          a link, its ends in either order; also `link p0t0-1:p0t1-3`
    links tier=t0-t1 plane=0 pick=2        links that fit all conditions (tier, plane, node); pick: so many, drawn
    links p0t0-0:p0t1-1 p0t0-0:p0t1-2      these links
    host h3                                a host, with the links of all its ports
    host h3 plane 2                        its link in one plane
    host h3 plane 2 t1 0                   what it sends over that T1: with one EV a path, an EV of each queue pair
    host h3 ev 0x20c001                    what it sends on exactly this EV
    switch p1t1-0                          a switch, with all its links
    switches tier=t1 plane=0 pick=1        switches that fit (tier, plane); or names, as with links
    transceiver p0t0-0 1                   the optic of a T0 that carries its NIC links 4..7 (0: 0..3)
    transceiver h3                         the optic of a NIC: all its ports
    plane 2                                a plane with all its links

`Target.text` names the same again without chance: what was picked is listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeVar

from agents.wire import address
from testbed.topology.clos import Clos, Link, Node
from testbed.topology.errors import InputError, nearest
from testbed.topology.select import find_ev_path, find_host, find_link, find_node

# What a target can be taken for; most are several of these.
Shape = Literal["links", "host", "switch", "t0", "t1", "plane", "t0-transceiver", "nic-transceiver", "ev"]
NIC_LINKS_PER_T0_TRANSCEIVER = 4  # an 800 Gb/s optic that breaks out into four NIC ports (paper, section 6)

_HOST_FORMS = {(), ("plane",), ("plane", "t1"), ("ev",)}  # the words after the host's name, without their values

Item = TypeVar("Item", Link, Node)


@dataclass(frozen=True, slots=True)
class Target:
    """Links (of a node: all of its own), the nodes that were named, and the EV, or the uSID of the T1, that was."""

    text: str
    shapes: frozenset[Shape]
    links: tuple[Link, ...]
    nodes: tuple[Node, ...] = ()
    ev: int | None = None
    usid: int | None = None


def resolve(clos: Clos, text: str, rng: Random) -> Target:
    """What a text names in a lab; `rng` draws for `pick`. Raises InputError with the nearest name."""
    words = text.split()
    if not words:
        raise InputError("a target is empty", f"name a link, like {next(iter(clos.links))!r}")
    form = _FORMS.get(words[0])
    if form is not None:
        return form(clos, words[1:], rng)
    if len(words) == 1 and ":" in text:
        return _of_links([find_link(clos, text)])
    if len(words) == 1 and text in clos.nodes:
        form_name = "host" if clos.nodes[text].kind == "host" else "switch"
        raise InputError(f"{text!r} alone is no target", f"write '{form_name} {text}'")
    known = nearest(words[0], _FORMS)
    if known or len(words) > 1:
        raise InputError(f"{text!r} is no target: it begins with none of {', '.join(_FORMS)}", known)
    return _of_links([find_link(clos, text)])  # no link either: says which is near


def _of_links(links: Sequence[Link]) -> Target:
    names = [link.name for link in links]
    text = names[0] if len(names) == 1 else f"links {' '.join(names)}"
    return Target(text, frozenset({"links"}), tuple(links))


def _link(clos: Clos, words: Sequence[str], rng: Random) -> Target:
    (name,) = _exactly(1, "link", words, next(iter(clos.links)))
    return _of_links([find_link(clos, name)])


def _links(clos: Clos, words: Sequence[str], rng: Random) -> Target:
    if words and "=" not in words[0]:
        return _of_links(_distinct([find_link(clos, name) for name in words]))
    tests: dict[str, Callable[[Link, str], bool]] = {
        "tier": lambda link, value: link.tier == value,
        "plane": lambda link, value: str(link.plane) == value,
        "node": lambda link, value: value in (link.a.node, link.b.node),
    }
    known = {
        "tier": ["nic-t0", "t0-t1"],
        "plane": [str(plane) for plane in range(clos.spec.planes)],
        "node": list(clos.nodes),
    }
    return _of_links(_choose("links", clos.links.values(), words, tests, known, rng))


def _host(clos: Clos, words: Sequence[str], rng: Random) -> Target:
    example = clos.hosts[0].name
    if tuple(words[1::2]) not in _HOST_FORMS or len(words) % 2 == 0:
        raise InputError(
            f"'host {' '.join(words)}' is no target",
            f"write 'host {example}', with 'plane 0', 'plane 0 t1 0' or 'ev 0xc000' behind it",
        )
    host = find_host(clos, words[0])
    links = tuple(link for _, link in clos.ports(host.name))
    if len(words) == 1:
        return Target(f"host {host.name}", frozenset({"host", "links"}), links, (host,))
    if words[1] == "plane":
        plane = _number(words[2], "plane", clos.spec.planes)
        own = [link for link in links if link.plane == plane]
        if len(words) == 3:
            return _of_links(own)
        t1 = _number(words[4], "T1", clos.spec.t1s_per_plane)
        usid = address.usid(plane, address.Kind.T1, t1)
        return Target(f"host {host.name} plane {plane} t1 {t1}", frozenset({"ev"}), tuple(own), (host,), usid=usid)
    try:
        path = find_ev_path(clos, int(words[2], 0))
    except ValueError:
        raise InputError(f"{words[2]!r} is no EV", "write a number like 0x20c001") from None
    shapes: frozenset[Shape] = frozenset({"ev"})
    link = next(link for link in links if link.plane == path.plane)
    return Target(f"host {host.name} ev {path.ev:#x}", shapes, (link,), (host,), path.ev)


def _switch(clos: Clos, words: Sequence[str], rng: Random) -> Target:
    (name,) = _exactly(1, "switch", words, clos.switches[0].name)
    return _of_switches(clos, [_find_switch(clos, name)])


def _switches(clos: Clos, words: Sequence[str], rng: Random) -> Target:
    if words and "=" not in words[0]:
        return _of_switches(clos, _distinct([_find_switch(clos, name) for name in words]))
    tests: dict[str, Callable[[Node, str], bool]] = {
        "tier": lambda switch, value: switch.kind == value,
        "plane": lambda switch, value: str(switch.plane) == value,
    }
    known = {"tier": ["t0", "t1"], "plane": [str(plane) for plane in range(clos.spec.planes)]}
    return _of_switches(clos, _choose("switches", clos.switches, words, tests, known, rng))


def _of_switches(clos: Clos, switches: Sequence[Node]) -> Target:
    names = [switch.name for switch in switches]
    text = f"switch {names[0]}" if len(names) == 1 else f"switches {' '.join(names)}"
    links = _distinct([link for switch in switches for _, link in clos.ports(switch.name)])
    shapes: set[Shape] = {"switch", "links"}
    if len({switch.kind for switch in switches}) == 1:
        shapes.add("t0" if switches[0].kind == "t0" else "t1")
    return Target(text, frozenset(shapes), tuple(links), tuple(switches))


def _transceiver(clos: Clos, words: Sequence[str], rng: Random) -> Target:
    t0 = next(switch.name for switch in clos.switches if switch.kind == "t0")
    if not words:
        raise InputError("'transceiver' of what?", f"write 'transceiver {t0} 0' or 'transceiver {clos.hosts[0].name}'")
    node = find_node(clos, words[0])
    if node.kind == "host":
        _exactly(1, "transceiver", words, node.name)
        links = tuple(link for _, link in clos.ports(node.name))
        shapes: frozenset[Shape] = frozenset({"links", "nic-transceiver", "host"})
        return Target(f"transceiver {node.name}", shapes, links, (node,))
    if node.kind != "t0":
        raise InputError(f"{node.name} is a T1; its links are no transceiver's", f"name a host or T0, like {t0!r}")
    _, number_text = _exactly(2, "transceiver", words, f"{node.name} 0")
    nic_links = [link for _, link in clos.ports(node.name) if link.tier == "nic-t0"]
    number = _number(number_text, f"transceiver of {node.name}", -(-len(nic_links) // NIC_LINKS_PER_T0_TRANSCEIVER))
    first = number * NIC_LINKS_PER_T0_TRANSCEIVER
    some = tuple(nic_links[first : first + NIC_LINKS_PER_T0_TRANSCEIVER])
    return Target(f"transceiver {node.name} {number}", frozenset({"links", "t0-transceiver"}), some)


def _plane(clos: Clos, words: Sequence[str], rng: Random) -> Target:
    (text,) = _exactly(1, "plane", words, "0")
    plane = _number(text, "plane", clos.spec.planes)
    links = tuple(link for link in clos.links.values() if link.plane == plane)
    return Target(f"plane {plane}", frozenset({"plane", "links"}), links)


_FORMS: dict[str, Callable[[Clos, Sequence[str], Random], Target]] = {
    "link": _link,
    "links": _links,
    "host": _host,
    "switch": _switch,
    "switches": _switches,
    "transceiver": _transceiver,
    "plane": _plane,
}


def _choose(
    what: str,
    items: Iterable[Item],
    words: Sequence[str],
    tests: dict[str, Callable[[Item, str], bool]],
    known: dict[str, list[str]],
    rng: Random,
) -> list[Item]:
    """The items that fit all `key=value` words, or so many of them as `pick=` says, in their own order."""
    found, pick = list(items), None
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or (key != "pick" and key not in tests):
            keys = [*tests, "pick"]
            hint = nearest(key, keys) or f"there are {', '.join(keys)}"
            raise InputError(f"{word!r} is no condition for {what}", hint)
        if key == "pick":
            pick = _whole(value)
            if not pick:
                raise InputError(f"{word!r} picks nothing", "write a whole number from 1")
            continue
        if value not in known[key]:
            some = ", ".join(known[key][:8])
            raise InputError(f"{what} have no {key} {value!r}", nearest(value, known[key]) or f"there are {some}")
        found = [item for item in found if tests[key](item, value)]
    if not found:
        raise InputError(f"no {what} fit '{' '.join(words)}'", "leave a condition out")
    if pick is None:
        return found
    if pick > len(found):
        raise InputError(f"pick={pick}, but only {len(found)} {what} fit", f"write pick={len(found)} or less")
    return [found[position] for position in sorted(rng.sample(range(len(found)), pick))]


def _find_switch(clos: Clos, name: str) -> Node:
    names = [switch.name for switch in clos.switches]
    if name not in names:
        raise InputError(f"lab {clos.spec.name} has no switch {name!r}", nearest(name, names) or f"like {names[0]!r}")
    return clos.nodes[name]


def _distinct(items: Sequence[Item]) -> list[Item]:
    return list({item.name: item for item in items}.values())


def _exactly(count: int, form: str, words: Sequence[str], example: str) -> Sequence[str]:
    if len(words) != count:
        raise InputError(f"'{' '.join([form, *words])}' is no target", f"write it like '{form} {example}'")
    return words


def _number(text: str, what: str, count: int) -> int:
    """A number below `count`, counted from 0."""
    number = _whole(text)
    if number is None or number >= count:
        raise InputError(f"no {what} {text!r}", f"there are 0 to {count - 1}" if count > 1 else "there is only 0")
    return number


def _whole(text: str) -> int | None:
    """A whole number below 10^9, as it is written in ASCII; None for any other text."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None
