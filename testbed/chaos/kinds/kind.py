"""What a kind of fault is: pure data. How its acts are done is the reader's: the injector's, or the simulator's.

A kind says what it can happen to, which ends of links and options it takes, and which acts it consists of. The acts are
done in their order and undone in reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from testbed.chaos.kinds.acts import Act, Blank, Change, Deny, Down, Kill, Setting, Value
from testbed.chaos.kinds.options import OPTIONS, Values
from testbed.topology.clos import Clos, Link, Port
from testbed.topology.errors import InputError, nearest
from testbed.topology.targets import Shape, Target

End = Literal["near", "far", "both"]

# shape -> (in words, an example)
SHAPES: dict[Shape, tuple[str, str]] = {
    "links": ("links", "p0t0-0:p0t1-1"),
    "host": ("a host", "host h3"),
    "switch": ("switches", "switch p0t0-1"),
    "t0": ("T0 switches", "switch p0t0-1"),
    "t1": ("T1 switches", "switch p0t1-2"),
    "plane": ("a plane", "plane 0"),
    "t0-transceiver": ("a T0's transceiver", "transceiver p0t0-0 0"),
    "nic-transceiver": ("a NIC's transceiver", "transceiver h3"),
    "ev": ("an EV of a host", "host h3 plane 2 t1 0"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One fault of a kind: where, at which ends (empty for kinds without ends), and with which options."""

    target: Target
    end: End | Literal[""]
    options: Values

    @property
    def ports(self) -> tuple[Port, ...]:
        """The ports that act: those ends of all links of the target; without ends both."""
        return tuple(port for link in self.target.links for port in ports_of(link, self.end or "both"))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: its name in scenario files and on the command line, one line of documentation, and its acts.

    `end` is the default of kinds that take ends, None for those that have none. `defaults` holds each option that the
    kind takes. `lasts_ns` is how long it lasts when nothing is said (None: until it is cleared, or the run ends).
    `needs_netem`: only where the kernel has that qdisc. `by_evs`: it acts on the EVs that cross its links. `only_mrc`:
    why it would change nothing for another transport.
    """

    name: str
    doc: str
    takes: Shape
    acts: Callable[[Case], tuple[Act, ...]]
    end: End | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    lasts_ns: int | None = None
    needs_netem: bool = False
    by_evs: bool = False
    only_mrc: str = ""

    def refuse_of_mrc(self, transport: str) -> None:
        """Raises InputError where the queue pairs are another transport's, and the fault would change nothing."""
        if self.only_mrc and transport != "mrc":
            raise InputError(f"{self.name} would change nothing: {self.only_mrc}", "leave it out, or send over mrc")

    def refuse_hashed(self, target: Target, clos: Clos) -> None:
        """Raises InputError where the fabric hashes, and the target or the kind needs EVs that name paths."""
        if clos.spec.source_routed:
            return
        why = f"the switches of lab {clos.spec.name} hash (routing: {clos.spec.routing})"
        if target.usid is not None:
            what = f"{target.text!r} names what goes over one T1, but {why}: no packet says so"
            raise InputError(what, f"name an EV: 'host {target.nodes[0].name} ev 0xc001'")
        if self.by_evs and any(link.tier == "t0-t1" for link in target.links):
            what = f"{self.name} takes the EVs that cross a link, but {why}: no EV names a T0-T1 link"
            raise InputError(what, "name a NIC-T0 link, which all EVs of its plane cross: 'host h0 plane 0'")

    def case(self, target: Target, end: End | None, options: Values) -> Case:
        """A fault of this kind. Raises InputError for a target, end or option that it does not take."""
        words, example = SHAPES[self.takes]
        if self.takes not in target.shapes:
            raise InputError(f"{self.name} happens to {words}, not to {target.text!r}", f"write it like {example!r}")
        if end is not None and self.end is None:
            raise InputError(f"{self.name} has no end to choose", "leave end out")
        for name in options:
            if name not in self.defaults:
                hint = nearest(name, self.defaults) or (
                    f"it takes {', '.join(self.defaults)}" if self.defaults else "leave it out"
                )
                raise InputError(f"{self.name} takes no {name}", hint)
        return Case(target, end or self.end or "", {**self.defaults, **options})


def ports_of(link: Link, end: End) -> tuple[Port, ...]:
    """The ports of a link that `end` names; near is the lower tier."""
    return {"near": (link.a,), "far": (link.b,), "both": (link.a, link.b)}[end]


def change_each(ports: Iterable[Port], *changes: tuple[Setting, Value]) -> tuple[Act, ...]:
    """The same changes at each of these ports."""
    return tuple(Change(port, setting, value) for port in ports for setting, value in changes)


def show_options(options: Values) -> str:
    """`loss 1%, ...` for people; empty without options."""
    return ", ".join(f"{name} {OPTIONS[name].show(value)}" for name, value in options.items())


def damage(clos: Clos, acts: Iterable[Act]) -> dict[str, float]:
    """What acts leave of links (`p0t0-0:p0t1-1`, 0..1) and of one direction of them (`p0t0-0>p0t1-1`).

    This is what the capacity oracle (`testbed.topology.capacity`) takes. Loss is no lack of capacity.
    """
    left: dict[str, float] = {}
    for name, fraction in _damage(clos, acts):
        left[name] = min(fraction, left.get(name, 1.0))
    for link in clos.links.values():  # both directions alike: the link
        there, back = f"{link.a.node}>{link.b.node}", f"{link.b.node}>{link.a.node}"
        if there in left and left[there] == left.get(back):
            fraction = left.pop(there)
            left[link.name] = min(fraction, left.pop(back), left.get(link.name, 1.0))
    return left


def _damage(clos: Clos, acts: Iterable[Act]) -> Iterator[tuple[str, float]]:
    links = {port.ifindex: link for link in clos.links.values() for port in link.ends()}
    for act in acts:
        match act:
            case Down(port):
                yield links[port.ifindex].name, 0.0
            case Change(port, "rate_bps", int(value)):
                yield _direction(clos, port, links[port.ifindex]), value / links[port.ifindex].rate_bps
            case Change(port, "black_hole", value) if value != "none":
                yield _direction(clos, port, links[port.ifindex]), 0.0
            case Blank(node):
                yield from ((link.name, 0.0) for _, link in clos.ports(node))
            case Kill(host):
                yield from ((link.name, 0.0) for _, link in clos.ports(host))
            case Deny(link_name):
                yield link_name, 0.0


def _direction(clos: Clos, port: Port, link: Link) -> str:
    return f"{port.node}>{clos.peer(port, link).node}"
