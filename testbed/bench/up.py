"""How long a lab takes to come up, beside a bare Mininet build of the same graph.

Ours is the whole of `mrclab up` from the lab's spec on: plan, namespaces, links, ports, routes and SIDs, all of it read
back, agents running, and every path proved. Mininet's is its nodes (a namespace and a shell each) and its links (veth
pairs, still down, without addresses or routes), by its own classes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mininet.link import Link
from mininet.log import setLogLevel
from mininet.node import Node

from testbed.bench.frame import RATIO, Alternation, Bench, Numbers, Say
from testbed.lab import lifecycle
from testbed.topology import clos
from testbed.topology.clos import Clos
from testbed.topology.labspec import LabSpec

LAB = "bench-up"


def spec() -> LabSpec:
    """16 hosts and 32 switches with 128 links, at rates that are no burden."""
    slow = {"host": "1 Mb/s", "fabric": "1 Mb/s"}
    shape = {"planes": 4, "t0_groups": 4, "hosts_per_t0": 4, "t1s_per_plane": 4}
    return LabSpec.model_validate({"name": LAB, **shape, "rates": slow})


class _MininetNode(Node):  # type: ignore[misc]
    @classmethod
    def setup(cls) -> None:
        """Mininet would ask for ifconfig, which only addresses need."""


def mininet_build(fabric: Clos) -> tuple[float, float]:
    """Build the graph with Mininet and take it away again; seconds for each."""
    setLogLevel("error")
    nodes: dict[str, _MininetNode] = {}
    start = time.monotonic()
    try:
        for name in fabric.nodes:
            nodes[name] = _MininetNode(name)
        for link in fabric.links.values():
            Link(nodes[link.a.node], nodes[link.b.node])
        built = time.monotonic()
    finally:
        for node in nodes.values():
            node.stop(deleteIntfs=False)
    return built - start, time.monotonic() - built


@contextmanager
def _prepare(say: Say) -> Iterator[Alternation]:
    wanted = spec()
    fabric = clos.build(wanted)
    say(f"{len(fabric.nodes)} nodes, {len(fabric.links)} links")
    with TemporaryDirectory(prefix="mrclab-bench-") as folder:

        def once() -> Numbers:
            start = time.monotonic()
            made = lifecycle.up(wanted, Path(folder) / f"{LAB}.yaml")
            up_s = time.monotonic() - start
            down_s = lifecycle.down(LAB).seconds
            build_s, stop_s = mininet_build(fabric)
            phases = {f"up_{phase}_s": seconds for phase, seconds in made.seconds.items() if phase != "total"}
            return {
                RATIO: up_s / build_s,
                "up_s": up_s,
                **phases,
                "down_s": down_s,
                "mininet_build_s": build_s,
                "mininet_stop_s": stop_s,
                "paths_verified": made.paths_verified,
            }

        yield once


BENCH = Bench(
    title="a lab of 48 nodes and 128 links: up with everything proved, beside Mininet's bare build",
    prepare=_prepare,
    ratio_of="mrclab up / Mininet's nodes and links",
    better="lower",
    tolerance=0.25,
    alternations=3,
)
