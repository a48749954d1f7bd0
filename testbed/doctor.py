"""What this machine has and lacks, as a table of needs; each with what it is for and the one command that mends it.

`checks(verb)` looks at everything a verb needs; `require(verb)` refuses with MissingError (exit code 3) in the same
words before a verb begins. Kernel features are tried, not guessed (`testbed.scratch`). What cannot be seen without
root is said to be unknown, and never refuses.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from glob import glob
from pathlib import Path
from typing import Literal

from testbed.topology.errors import MissingError
from testbed.topology.library import checkout

State = Literal["OK", "missing", "degraded", "unknown"]

PACKAGES_FILE = Path(__file__).with_name("packages.txt")
MIN_KERNEL = (6, 1)  # the first with the NEXT-CSID flavour of End
MIN_FREE_MB = 512  # the demo's agents and a report
MIN_OPEN_FILES = 1024

REQUIRED_MODULES = ("click", "jinja2", "mininet", "pydantic", "rich", "yaml")
OPTIONAL_MODULES = {"isal": "fast checksums", "matplotlib": "figures in reports"}

NEW_KERNEL = "boot a kernel of 6.1 or later with SRv6 (Debian 12, Ubuntu 24.04, or later)"


@dataclass(frozen=True, slots=True)
class Row:
    """One need: `state`, what was `found`, what it is for, and the command that mends it."""

    name: str
    state: State
    found: str
    purpose: str
    fix: str

    def as_dict(self) -> dict[str, str]:
        """For `--json`."""
        return asdict(self)


Look = Callable[[], Iterator[Row]]


def checks(verb: str) -> list[Row]:
    """A row for everything that `verb` needs; none for a verb that needs nothing."""
    return [row for look in NEEDS.get(verb, ()) for row in look()]


def require(verb: str) -> None:
    """Return when the machine has what `verb` needs. Raises MissingError that names what is missing, with the fix."""
    for look in NEEDS.get(verb, ()):
        missing = [row for row in look() if row.state == "missing"]
        if missing:
            first, *others = missing
            more = f" (also missing: {', '.join(row.name for row in others)})" if others else ""
            raise MissingError(f"{first.name} is missing: {first.found}{more}", first.purpose, _fix_of(missing))


def _fix_of(missing: list[Row]) -> str:
    """One command for all of them: packages are installed together."""
    install = "apt-get install "
    first = missing[0].fix
    if not first.startswith(install):
        return first
    packages = [row.fix.removeprefix(install) for row in missing if row.fix.startswith(install)]
    return install + " ".join(dict.fromkeys(packages))


def _row(name: str, ok: bool, found: str, purpose: str, fix: str, otherwise: State = "missing") -> Row:
    return Row(name, "OK" if ok else otherwise, found, purpose, fix)


def root() -> Iterator[Row]:
    """Does this process run as root?"""
    user = os.geteuid()
    fix = "sudo ./mrclab ..." if shutil.which("sudo") else "run it as root"
    found = "running as root" if user == 0 else f"running as user {user}"
    yield _row("root", user == 0, found, "namespaces, links and raw sockets", fix)


def kernel() -> Iterator[Row]:
    """Is the kernel new enough?"""
    release = platform.release()
    numbers = re.match(r"(\d+)\.(\d+)", release)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    purpose = "uN, the SRv6 function that switches run"
    yield _row("Linux 6.1", version >= MIN_KERNEL, f"{platform.system()} {release}", purpose, NEW_KERNEL)


def programs() -> Iterator[Row]:
    """Is what each package of packages.txt brings there?"""
    for package, proof, purpose in _packages("lab"):
        name = "Python's venv" if proof.startswith("python3:") else Path(proof).name
        place = _place_of(proof)
        yield _row(name, place is not None, place or "not found", purpose, f"apt-get install {package}")


def _packages(need: str) -> Iterator[tuple[str, str, str]]:
    """(package, proof, what for) of each line of packages.txt with that need."""
    for line in PACKAGES_FILE.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            package, its_need, proof, purpose = line.split(maxsplit=3)
            if its_need == need:
                yield package, proof, purpose


def _place_of(proof: str) -> str | None:
    """Where the proof of a package is; None when it is not there."""
    if proof.startswith("python3:"):
        in_venv = sys.prefix != sys.base_prefix
        return sys.prefix if in_venv or importlib.util.find_spec(proof.removeprefix("python3:")) else None
    if proof.startswith("/"):
        return next(iter(glob(proof)), None)
    return shutil.which(proof) or shutil.which(proof, path="/usr/sbin")


def modules() -> Iterator[Row]:
    """Are the Python packages there?"""
    source = "-r requirements.lock" if checkout() else "--upgrade mrclab"
    fix = f"{sys.executable} -m pip install {source}"
    absent = [name for name in REQUIRED_MODULES if not importlib.util.find_spec(name)]
    found = f"without {', '.join(absent)}" if absent else f"all {len(REQUIRED_MODULES)}"
    yield _row("Python packages", not absent, found, "the tool itself", fix)
    for name, purpose in OPTIONAL_MODULES.items():
        there = importlib.util.find_spec(name) is not None
        fix = f"{sys.executable} -m pip install {name}"
        yield _row(f"Python's {name}", there, "found" if there else "not found", purpose, fix, "degraded")


# Feature of `testbed.scratch` -> (what it is for, the one command that mends it)
_FEATURE_NEEDS = {
    "veth": ("the links, and what carries the SIDs of a switch", "modprobe veth"),
    "SRv6 uN": ("what switches run: each takes its own uSID off the address", NEW_KERNEL),
    "SRv6 End.DT6": ("ordinary tools between hosts (ping, iperf3)", NEW_KERNEL),
    "SRv6 encapsulation": ("ordinary tools between hosts (ping, iperf3)", NEW_KERNEL),
    "HTB": ("line rates and queues of the ports", "modprobe sch_htb"),
    "clsact": ("where eBPF programs hang on a port", "modprobe -a sch_ingress cls_bpf"),
    "packet sockets": ("what the agents send and receive through", "modprobe af_packet"),
    "eBPF": ("keeps the agents' packets from the hosts' stacks", "apt-get install libbpf-dev"),
}


def features() -> Iterator[Row]:
    """What the kernel can do, tried in a namespace that vanishes."""
    from testbed import scratch  # loads the netlink library, a third of a second: only here

    try:
        troubles = scratch.try_features()
    except scratch.NotSeen as error:
        state: State = "missing" if os.geteuid() == 0 else "unknown"
        fix = "give this container CAP_SYS_ADMIN and CAP_NET_ADMIN" if os.geteuid() == 0 else "run doctor as root"
        yield Row("network namespaces", state, f"not allowed to make {error}", "the nodes of a lab", fix)
        return
    for name, (purpose, fix) in _FEATURE_NEEDS.items():
        trouble = troubles[name]
        if trouble and os.geteuid() != 0:  # root of a user namespace may do less than root
            yield Row(name, "unknown", f"without root: {trouble}", purpose, "run doctor as root")
        else:
            yield _row(name, not trouble, trouble or "tried, works", purpose, fix)


def ports() -> Iterator[Row]:
    """Does the kernel take the program of a port, and may it look at HTB's queue? Tried."""
    from testbed.fabric.programs import Programs  # loads the netlink library

    purpose, fix = "switch ports: ECN, trimming, faults", "boot a kernel of 6.2 or later with CONFIG_DEBUG_INFO_BTF"
    if os.geteuid() != 0:
        yield Row("port programs", "unknown", "cannot be tried without root", purpose, "run doctor as root")
        return
    try:
        with Programs(0) as programs:
            computed = programs.virtual_queue
    except MissingError as error:
        yield Row("port programs", "missing", str(error), purpose, error.fix)
        return
    found = "ports decide on a computed queue, off by up to a packet" if computed else "ports see HTB's own queue"
    yield _row("port programs", not computed, found, purpose, fix, "degraded")


def delay() -> Iterator[Row]:
    """Can links have a delay? Only labs that ask for it need that; `up` refuses them where it is missing."""
    from testbed.fabric import netem  # loads the netlink library

    purpose = "labs with a delay on their links"
    if os.geteuid() != 0:
        yield Row("netem", "unknown", "cannot be tried without root", purpose, "run doctor as root")
        return
    trouble = netem.trouble()
    yield _row("netem", not trouble, trouble or "tried, works", purpose, netem.FIX, "degraded")


def routing_daemons() -> Iterator[Row]:
    """Is FRR there? Only labs with routing: bgp need it; `up` refuses them where it is missing."""
    from testbed.lab import frr  # loads the netlink library

    trouble = frr.missing()
    yield _row("FRR", not trouble, trouble or str(frr.DAEMONS), frr.PURPOSE, frr.FIX, "degraded")


def memory() -> Iterator[Row]:
    """Is there memory for a small lab?"""
    with open("/proc/meminfo") as file:
        free_kb = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))
    free_mb = free_kb // 1024
    fix = "end other programs, or give the machine more memory"
    yield _row(f"{MIN_FREE_MB} MB of memory", free_mb >= MIN_FREE_MB, f"{free_mb} MB", "the agents", fix, "degraded")


def open_files() -> Iterator[Row]:
    """May a process open enough files? `up` raises its own soft limit to the hard one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    enough = hard == resource.RLIM_INFINITY or hard >= MIN_OPEN_FILES
    found = "no limit" if hard == resource.RLIM_INFINITY else f"at most {hard}"
    fix = f"ulimit -Hn {MIN_OPEN_FILES * 4}"
    yield _row(f"{MIN_OPEN_FILES} open files", enough, found, "two for each node of a lab", fix, "degraded")


_LAB: tuple[Look, ...] = (root, kernel, modules, programs, features)

# What each verb needs, in the order in which lacks are told. A verb that is not here needs nothing.
NEEDS: dict[str, tuple[Look, ...]] = {
    "up": (*_LAB, ports, delay, routing_daemons, memory, open_files),
    "run": _LAB,
    "demo": _LAB,
    "down": (root,),
    "status": (root,),
    "exec": (root,),
    "fault": (root,),
    "cli": (root, programs),
}
