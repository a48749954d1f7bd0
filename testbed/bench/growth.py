"""Does any step of a lab grow faster than its work? Four labs, each with twice the hosts and twice the links.

Each step has a unit of work: a namespace, a link, a kernel object, a path. What a unit costs must not grow with the
lab. The figure is the worst step's: its cost per unit in the largest lab over that in the smallest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.bench.frame import RATIO, Alternation, Bench, Numbers, Say
from testbed.fabric import plan
from testbed.fabric.portmap import Reader
from testbed.lab import lifecycle
from testbed.lab.running import RunningLab, open_lab
from testbed.topology import clos
from testbed.topology.labspec import LabSpec

T0_GROUPS = (2, 4, 8, 16)
LAB = "bench-growth"

# Step -> its unit of work. The first ones are phases of `up`.
UNITS = {
    "namespaces": "node",
    "links": "link",
    "ports": "object",
    "read_back": "object",
    "agents": "host",
    "paths": "path",
    "status": "object",
    "sample_ports": "port",
    "sample_agents": "host",
    "down": "node",
}

Costs = dict[str, float]  # step -> microseconds per unit


def spec(t0_groups: int) -> LabSpec:
    """Four hosts a rack, four planes, four T1s: hosts and links go with the number of racks."""
    slow = {"host": "1 Mb/s", "fabric": "1 Mb/s"}
    shape = {"planes": 4, "t0_groups": t0_groups, "hosts_per_t0": 4, "t1s_per_plane": 4}
    return LabSpec.model_validate({"name": LAB, **shape, "rates": slow})


def costs(wanted: LabSpec) -> Costs:
    """Bring a lab up, look at it, take it down: what a unit of each step's work costs."""
    fabric = clos.build(wanted)
    made = lifecycle.up(wanted, Path(f"{LAB}-{os.getpid()}.yaml"))
    try:
        seconds = {step: made.seconds[step] for step in UNITS if step in made.seconds}
        seconds["status"] = _timed(lambda: lifecycle.status(LAB))
        with open_lab(LAB) as running:
            seconds["sample_ports"] = _timed(lambda: _sample_ports(running))
            with running.agents() as group:
                group.call("hello")  # connections are made once
                seconds["sample_agents"] = _timed(lambda: group.call("collect", limit=0))
    finally:
        gone = lifecycle.down(LAB)
    seconds["down"] = gone.seconds
    units = {
        "node": len(fabric.nodes),
        "host": len(fabric.hosts),
        "link": len(fabric.links),
        "port": 2 * len(fabric.links),
        "object": plan.build(fabric).objects(),
        "path": made.paths_verified,
    }
    return {step: 1e6 * seconds[step] / units[UNITS[step]] for step in UNITS}


def _timed(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def _sample_ports(running: RunningLab) -> int:
    """As a run does it for every sample: the counters of all ports, and their longest queues."""
    total = 0
    for link in running.clos.links.values():
        for port in link.ends():
            total += running.port_map.counters(port.ifindex).bytes
            total += running.port_map.queue_max(port.ifindex, Reader.SAMPLES)
    return total


def growth(sizes: Sequence[Costs]) -> Costs:
    """Step -> cost per unit in the last lab over that in the first."""
    return {step: sizes[-1][step] / sizes[0][step] for step in UNITS}


@contextmanager
def _prepare(say: Say) -> Iterator[Alternation]:
    def once() -> Numbers:
        sizes = [costs(spec(groups)) for groups in T0_GROUPS]
        numbers: Numbers = {RATIO: max(growth(sizes).values())}
        for groups, found in zip(T0_GROUPS, sizes, strict=True):
            hosts = spec(groups).hosts
            numbers |= {f"{step}_us_per_{UNITS[step]}_at_{hosts}_hosts": value for step, value in found.items()}
        return numbers

    yield once


BENCH = Bench(
    title="four labs, each with twice the hosts and links: what a unit of each step's work costs",
    prepare=_prepare,
    ratio_of="the worst step's cost per unit, 64 hosts / 8 hosts",
    better="lower",
    tolerance=0.5,
    alternations=3,
)
