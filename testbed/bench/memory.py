"""What a lab takes of the machine's memory: a switch in the kernel, an agent as a process.

The kernel's part is what its slabs and per-CPU areas grow by while the fabric of `demo` is made, without agents. An
agent's part is its proportional set size: pages that the agents share (they are forked from one process) count once,
divided among them. It is taken at rest, and again after flows at full speed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.bench import fabric
from testbed.bench.frame import Alternation, Bench, Numbers, Say
from testbed.fabric import apply, plan
from testbed.fabric.netlink import Kernel
from testbed.fabric.programs import Programs
from testbed.lab import lifecycle, lock, state
from testbed.lab.state import LabState
from testbed.topology import clos
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab
from testbed.topology.labspec import LabSpec

_FABRIC, _LAB = "bench-fabric", "bench-memory"
_BUSY_S = 2.0
_MESSAGE_BYTES = 64 << 10
_SETTLE_S, _SETTLED_WITHIN_S, _SETTLED_KB = 0.2, 5.0, 64


def kernel_kb() -> int:
    """Kernel memory that grows with what is made: slabs and per-CPU areas, in KB."""
    rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(row[1]) for row in rows if row[0] in ("Slab:", "Percpu:"))


def _settled_kb() -> int:
    """The same, once the kernel has taken apart what went before."""
    deadline = time.monotonic() + _SETTLED_WITHIN_S
    last = kernel_kb()
    while time.monotonic() < deadline:
        time.sleep(_SETTLE_S)
        now = kernel_kb()
        if abs(now - last) < _SETTLED_KB:
            return now
        last = now
    return last


def agents_pss_mb(pids: Iterable[int]) -> float:
    """Mean proportional set size of some processes."""
    sizes = []
    for pid in pids:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        sizes.append(next(int(row.split()[1]) for row in rows if row.startswith("Pss:")))
    return sum(sizes) / len(sizes) / 1024


def _kernel_parts(spec: LabSpec) -> Numbers:
    model = clos.build(spec)
    desired = plan.build(model)
    ports = sum(len(node.ports or ()) for node in desired.nodes.values())
    with lock.exclusive(desired.lab, "mrclab bench memory"):
        if state.load(desired.lab) is not None:
            raise InputError(f"lab {desired.lab} is there already", f"mrclab down {desired.lab}")
        namespaces = [node.namespace for node in desired.nodes.values()]
        LabState(spec, "mrclab bench memory", namespaces=namespaces).save()  # so that `down` finds what a kill leaves
    before = _settled_kb()
    try:
        with Programs(desired.last_ifindex) as programs, Kernel(desired.lab) as kernel:
            apply.create_namespaces(desired, lambda done, of: None)
            empty = kernel_kb()
            apply.create_links(desired, kernel)
            apply.configure(desired, kernel, programs, lambda done, of: None)
            kernel.close()
            full = _settled_kb()
    finally:
        lifecycle.down(desired.lab)
    devices = ports + 2 * len(desired.nodes)  # each node has a pair for its SIDs or address
    node_kb, port_kb = (empty - before) / len(desired.nodes), (full - empty) / devices
    switch_ports = sum(len(model.ports(switch.name)) for switch in model.switches) / len(model.switches)
    return {
        "kernel_kb_per_namespace": node_kb,
        "kernel_kb_per_port": port_kb,
        "ports_per_switch": switch_ports,
        "switch_mb": (node_kb + (switch_ports + 2) * port_kb) / 1024,
    }


@contextmanager
def _prepare(say: Say) -> Iterator[Alternation]:
    spec = load_lab("demo")
    pairs = [("h0", "h4"), ("h1", "h5"), ("h2", "h6"), ("h3", "h7")]

    def once() -> Numbers:
        kernel = _kernel_parts(spec.model_copy(update={"name": _FABRIC}))
        with fabric.lab(spec.model_copy(update={"name": _LAB})) as running:
            pids = running.agent_pids.values()
            at_rest = agents_pss_mb(pids)
            fabric.verified(running, pairs, _MESSAGE_BYTES, _BUSY_S)
            busy = agents_pss_mb(pids)
        return {**kernel, "agent_mb_at_rest": at_rest, "agent_mb_after_traffic": busy}

    yield once


BENCH = Bench(title="memory of a switch and of an agent of demo", prepare=_prepare, alternations=3)
