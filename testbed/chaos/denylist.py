"""A controller's denylist for one link, as each host needs it: which EVs of which queue pair cross it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from agents.wire import ev as entropy
from testbed.topology.clos import Clos
from testbed.topology.errors import MrclabError


class Asked(Protocol):
    """The agents of all hosts."""

    @property
    def hosts(self) -> list[str]: ...
    def call_each(self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]: ...


def tell(agents: Asked, clos: Clos, link: str, denied: bool) -> None:
    """Deny the EVs that cross a link to all queue pairs that there are, or allow them again.

    A host whose agent does not answer learns nothing.
    """
    for host in agents.hosts:
        with suppress(MrclabError):
            for qpn in agents.call_each("hello", {host: {}})[host]["qps"]:
                known = agents.call_each("ev-map", {host: {"qpn": qpn}})[host]
                evs = [one["ev"] for one in known["evs"] if link in _path(clos, host, known["peer"], one["ev"])]
                if evs:
                    agents.call_each("denylist", {host: {"qpn": qpn, "evs": evs, "denied": denied}})


def _path(clos: Clos, host: str, peer: int, ev: int) -> list[str]:
    return clos.path_links(clos.nodes[host].index, peer, entropy.plane_of(ev), entropy.uplink_of(ev))
