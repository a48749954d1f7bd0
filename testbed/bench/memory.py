"""What a lab takes of the machine's memory: a switch in the kernel, an agent as a process.

The kernel's part is what its slabs and per-CPU areas grow by while a fabric is made, without agents: that of `wide`,
whose T0s have 16 ports, and that of `demo`, for whose size the kernel still finds room in pages that it has. An agent's
part is its proportional set size: pages that the agents share (they are forked from one process) count once,
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
    try:
        before = _settled_kb()
        with Programs(desired.last_ifindex) as programs, Kernel(desired.lab) as kernel:
            apply.create_namespaces(desired, lambda done, of: None)
            empty = kernel_kb()
            apply.create_links(desired, kernel)
            linked = _settled_kb()
            apply.configure(desired, kernel, programs, lambda done, of: None)
            kernel.close()
            full = _settled_kb()
    finally:
        lifecycle.down(desired.lab)
    devices = ports + 2 * len(desired.nodes)  # each node has a pair for its SIDs or address
    node_kb, device_kb, port_kb = (
        (empty - before) / len(desired.nodes),
        (linked - empty) / devices,
        (full - linked) / ports,
    )
    switch_ports = [len(model.ports(switch.name)) for switch in model.switches]

    def switch_mb(its_ports: float) -> float:
        return (node_kb + (its_ports + 2) * device_kb + its_ports * port_kb) / 1024

    return {
        "kb_per_namespace": node_kb,
        "kb_per_device": device_kb,
        "kb_per_port_beyond_its_device": port_kb,
        "mean_switch_mb": switch_mb(sum(switch_ports) / len(switch_ports)),
        "largest_switch_mb": switch_mb(max(switch_ports)),
    }


@contextmanager
def _prepare(say: Say) -> Iterator[Alternation]:
    spec, wide = load_lab("demo"), load_lab("wide")
    pairs = [("h0", "h4"), ("h1", "h5"), ("h2", "h6"), ("h3", "h7")]

    def once() -> Numbers:
        kernel = {
            f"{lab.name}_{name}": value
            for lab in (spec, wide)
            for name, value in _kernel_parts(lab.model_copy(update={"name": _FABRIC})).items()
        }
        with fabric.lab(spec.model_copy(update={"name": _LAB})) as running:
            pids = running.agent_pids.values()
            at_rest = agents_pss_mb(pids)
            fabric.verified(running, pairs, _MESSAGE_BYTES, _BUSY_S)
            busy = agents_pss_mb(pids)
        return {**kernel, "agent_mb_at_rest": at_rest, "agent_mb_after_traffic": busy}

    yield once


BENCH = Bench(title="memory of switches of demo and wide, and of an agent of demo", prepare=_prepare, alternations=3)
