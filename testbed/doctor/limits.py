"""How much of everything there is: memory, processors, open files, processes, and settings of the kernel."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from testbed.doctor.row import Row, judged
from testbed.lab import cgroup

MIN_FREE_MB = 512  # the demo's agents and a report
MIN_OPEN_FILES = 1024
MIN_CPUS = 2
MIN_PROCESSES = 256

# The kernel's own files, seen from a folder that stands for /.
TOP = Path("/")

# Sysctl -> (least value, what for). Those of a network namespace are set by `up` itself.
_SYSCTLS = {
    "net.core.wmem_max": (65536, "the agents' send buffers"),
    "net.core.rmem_max": (65536, "the agents' receive buffers"),
    "user.max_net_namespaces": (256, "a namespace for each node"),
}
_SLOW_CLOCKS = ("acpi_pm", "hpet", "refined-jiffies", "jiffies")


def memory() -> Iterator[Row]:
    """Is there memory for a small lab, also in this control group?"""
    with open(TOP / "proc/meminfo") as file:
        free_kb = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))
    free_mb, found = free_kb // 1024, f"{free_kb // 1024} MB"
    left = cgroup.left("memory.max", "memory.current", TOP)
    if left is not None and left >> 20 < free_mb:
        free_mb, found = left >> 20, f"{left >> 20} MB left to this control group"
    fix = "end other programs, or give the machine more memory"
    yield judged(f"{MIN_FREE_MB} MB of memory", free_mb >= MIN_FREE_MB, found, "the agents", fix, "degraded")


def processors() -> Iterator[Row]:
    """Are there processors for agents and forwarding side by side?"""
    cpus = len(os.sched_getaffinity(0))
    fix = "give the machine more processors, or lower the rates of the lab"
    yield judged(f"{MIN_CPUS} CPUs", cpus >= MIN_CPUS, str(cpus), "agents beside forwarding", fix, "degraded")


def open_files() -> Iterator[Row]:
    """May a process open enough files? `up` raises its own soft limit to the hard one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    enough = hard == resource.RLIM_INFINITY or hard >= MIN_OPEN_FILES
    found = "no limit" if hard == resource.RLIM_INFINITY else f"at most {hard}"
    fix = f"ulimit -Hn {MIN_OPEN_FILES * 4}"
    yield judged(f"{MIN_OPEN_FILES} open files", enough, found, "two for each node of a lab", fix, "degraded")


def processes() -> Iterator[Row]:
    """May there be enough processes: one for each host?"""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    left = cgroup.left("pids.max", "pids.current", TOP)
    most = min((limit for limit in (hard, left) if limit is not None and limit >= 0), default=None)
    enough = most is None or most >= MIN_PROCESSES
    found = "no limit" if most is None else f"at most {most}"
    fix = "raise pids.max of this control group, or ulimit -u"
    yield judged(f"{MIN_PROCESSES} processes", enough, found, "an agent for each host", fix, "degraded")


def settings() -> Iterator[Row]:
    """Are the kernel's settings as a lab needs them?"""
    off = TOP / "proc/sys/net/ipv6"
    fix = "boot without ipv6.disable=1"
    yield judged("IPv6", off.is_dir(), "on" if off.is_dir() else "off in this kernel", "the whole fabric", fix)
    for name, (least, purpose) in _SYSCTLS.items():
        try:
            value = int((TOP / "proc/sys" / name.replace(".", "/")).read_text())
        except OSError:  # not there: not limited
            continue
        fix = f"sysctl -w {name}={least}"
        yield judged(name, value >= least, str(value), purpose, fix, "degraded")


def clock() -> Iterator[Row]:
    """Is reading the time cheap? Agents do so for every packet."""
    try:
        source = (TOP / "sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    except OSError:
        return
    fix = "boot with a clock source that programs can read without the kernel (tsc, kvm-clock, arch_sys_counter)"
    yield judged("clock", source not in _SLOW_CLOCKS, source, "the time of each packet", fix, "degraded")
