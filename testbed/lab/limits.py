"""Whether this machine can carry a lab: computed from the lab's size before anything is made, and refused with numbers.

What a node, a port and an agent take was measured by `mrclab bench memory` (docs/scale.md has the figures); how long
`up` takes is computed in `effort`. All here is arithmetic on the lab's spec, so that a lab far too large is refused at
once.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.fabric import netns
from testbed.lab import cgroup, effort
from testbed.lab.size import Size
from testbed.topology.errors import MissingError
from testbed.topology.labspec import LabSpec
from testbed.topology.units import format_size

# The kernel's memory on Linux 6.18, with room for other kernels and for traffic.
NODE_BYTES = 450 << 10  # a namespace, and the veth pair that holds its SIDs or address
PORT_BYTES = 100 << 10  # a veth end with its IPv6 state, sysfs entries, HTB, two leaves, and programs
ROUTE_BYTES = 1 << 10
AGENT_BYTES = 24 << 20  # its own pages, with the memory regions and rings of a busy one
COMMAND_BYTES_PER_ROUTE = 2 << 10  # the plan and the read-back, in the memory of `up`
RESERVE_BYTES = 256 << 20  # left to everything else

UP_WITHIN_S = 120.0  # as long as one waits for a lab unless one says otherwise

_FILES_PER_NODE = 2  # while a lab is built: its namespace, and a socket in it
_OTHER_FILES = 200
_OTHER_PROCESSES = 50
_LARGEST_HOST = (1 << 16) - 1  # the ports' programs tell hosts apart by 16 bits (port.bpf.c, struct ev_key)
_UNLIMITED = 1 << 62


def memory_bytes(size: Size) -> int:
    """What a lab takes in all, and `up` while it makes it."""
    kernel = size.nodes * NODE_BYTES + size.ports * PORT_BYTES + size.routes * ROUTE_BYTES
    return kernel + size.hosts * AGENT_BYTES + size.routes * COMMAND_BYTES_PER_ROUTE + RESERVE_BYTES


@dataclass(frozen=True, slots=True)
class Machine:
    """What is left on a machine for a lab."""

    memory_bytes: int
    open_files: int
    namespaces: int
    mounts: int
    processes: int

    @classmethod
    def this(cls) -> Machine:
        """The machine as it is now, with the limits of this process."""
        _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
        _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
        running = sum(entry.isdigit() for entry in os.listdir("/proc"))
        pids = min(_number("/proc/sys/kernel/pid_max"), _number("/proc/sys/kernel/threads-max"))
        if processes != resource.RLIM_INFINITY and os.geteuid() != 0:  # root is not counted
            pids = min(pids, processes)
        there = len(netns.names())
        return cls(
            memory_bytes=_memory_available(),
            open_files=_number("/proc/sys/fs/nr_open") if files == resource.RLIM_INFINITY else files,
            namespaces=_number("/proc/sys/user/max_net_namespaces") - there,
            mounts=_number("/proc/sys/fs/mount-max") - len(Path("/proc/self/mounts").read_bytes().splitlines()),
            processes=_least(pids - running, cgroup.left("pids.max", "pids.current")),
        )


def _number(path: str | Path) -> int:
    """A file with one number; a word ("max") and a file that is not there mean no limit."""
    with suppress(OSError, ValueError):
        return int(Path(path).read_text())
    return _UNLIMITED


def _least(own: int, left_to_group: int | None) -> int:
    return own if left_to_group is None else min(own, left_to_group)


def _memory_available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    return _least(available, cgroup.left("memory.max", "memory.current"))


def _lacking(spec: LabSpec, machine: Machine, within_s: float) -> Iterator[tuple[str, str]]:
    """(what is lacking with the numbers, what would mend it)."""
    size = Size.of(spec)
    if size.hosts > _LARGEST_HOST:
        yield f"{size.hosts} hosts; {_LARGEST_HOST} are told apart by a port", "use mrclab sim or plan"
    needed = memory_bytes(size)
    if needed > machine.memory_bytes:
        yield (
            f"{format_size(needed)} of memory, {format_size(machine.memory_bytes)} are available",
            _what_fits(spec, machine, within_s),
        )
    files = _FILES_PER_NODE * size.nodes + _OTHER_FILES
    if files > machine.open_files:
        yield f"{files} open files, {machine.open_files} are allowed", f"ulimit -n {files}"
    if size.nodes > machine.namespaces:
        yield (
            f"{size.nodes} network namespaces, {machine.namespaces} are left",
            f"sysctl user.max_net_namespaces={2 * size.nodes}",
        )
    if 2 * size.nodes > machine.mounts:  # each is mounted below /run/netns, and that itself on a second mount
        yield f"{2 * size.nodes} mounts, {machine.mounts} are left", f"sysctl fs.mount-max={4 * size.nodes + 100_000}"
    processes = size.hosts + _OTHER_PROCESSES
    if processes > machine.processes:
        yield f"{processes} processes, {machine.processes} are left", f"sysctl kernel.pid_max={4 * processes + 32_768}"
    seconds = effort.seconds(size)
    if seconds > within_s:
        yield (
            f"about {_rounded_up(seconds):g} s to bring it up, {within_s:g} s are allowed",
            f"{_what_fits(spec, machine, within_s)}, or allow more: mrclab up LAB --within {_rounded_up(seconds):g}s",
        )


def _rounded_up(seconds: float) -> float:
    """To two digits, and so that it is enough."""
    step = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return round(math.ceil(seconds / step) * step, 6)


def _what_fits(spec: LabSpec, machine: Machine, within_s: float) -> str:
    """The largest number of T0 groups of the same shape for which there is memory and time, in words."""
    fits, too_many = 0, spec.t0_groups
    while too_many - fits > 1:
        groups = (fits + too_many) // 2
        size = Size.of(spec.model_copy(update={"t0_groups": groups}))
        if memory_bytes(size) <= machine.memory_bytes and effort.seconds(size) <= within_s:
            fits = groups
        else:
            too_many = groups
    return f"a lab of this shape with {fits} t0_groups fits" if fits else "no lab with such racks fits"


def require(spec: LabSpec, machine: Machine | None = None, within_s: float = UP_WITHIN_S) -> None:
    """Raises MissingError with the numbers when the machine (this one) cannot carry the lab; allows the open files.

    `within_s`: how long bringing it up may take.
    """
    size = Size.of(spec)
    for what, fix in _lacking(spec, machine or Machine.this(), within_s):
        raise MissingError(what, f"for {size.hosts} hosts, {size.switches} switches and {size.ports // 2} links", fix)
    if machine is None:
        _allow_open_files(_FILES_PER_NODE * size.nodes + _OTHER_FILES)


def _allow_open_files(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
