"""Which ports see a fault happen: those that take packets for it, and those that send into what is dead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from testbed.chaos.kinds.acts import Act, Blank, Change, Down
from testbed.topology.clos import Clos, Port

_TAKES = frozenset({"loss", "match_loss"})


@dataclass(frozen=True, slots=True)
class Watched:
    """A port, called by the way it sends (`p0t0-1>p0t1-3`). `dead`: nothing that it is given arrives any more."""

    name: str
    port: Port
    dead: bool


def watched(clos: Clos, acts: Iterable[Act]) -> list[Watched]:
    """The ports of some acts, each once; dead if any of them makes it so."""
    dead: dict[Port, bool] = {}
    for port, is_dead in _ports(clos, acts):
        dead[port] = is_dead or dead.get(port, False)
    far = {port: clos.peer(port, link).node for link in clos.links.values() for port in link.ends()}
    return [Watched(f"{port.node}>{far[port]}", port, is_dead) for port, is_dead in dead.items()]


def _ports(clos: Clos, acts: Iterable[Act]) -> Iterator[tuple[Port, bool]]:
    links = {port: link for link in clos.links.values() for port in link.ends()}
    for act in acts:
        match act:
            case Down(port):
                yield from ((end, True) for end in links[port].ends())
            case Change(port, "black_hole", value) if value != "none":
                yield port, value == "all"
            case Change(port, setting) if setting in _TAKES:
                yield port, False
            case Blank(node):
                yield from ((clos.peer(port, link), True) for port, link in clos.ports(node))
