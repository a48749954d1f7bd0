"""What the kernel can do: its version, and its features, tried and not guessed."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator

from testbed.doctor.row import Row, State, judged
from testbed.topology.errors import MissingError

MIN_KERNEL = (6, 1)  # the first with the NEXT-CSID flavour of End
NEW_KERNEL = "boot a kernel of 6.1 or later with SRv6 (Debian 12, Ubuntu 24.04, or later)"

# Feature of `testbed.scratch` -> (what it is for, what mends it)
FEATURE_NEEDS = {
    "veth": ("the links, and what carries the SIDs of a switch", "modprobe veth"),
    "SRv6 uN": ("what switches run: each takes its own uSID off the address", NEW_KERNEL),
    "SRv6 End.DT6": ("ordinary tools between hosts (ping, iperf3)", NEW_KERNEL),
    "SRv6 encapsulation": ("ordinary tools between hosts (ping, iperf3)", NEW_KERNEL),
    "HTB": ("line rates and queues of the ports", "modprobe sch_htb"),
    "clsact": ("where eBPF programs hang on a port", "modprobe -a sch_ingress cls_bpf"),
    "packet sockets": ("what the agents send and receive through", "modprobe af_packet"),
    "eBPF": ("keeps the agents' packets from the hosts' stacks", "apt-get install libbpf-dev"),
}


def kernel() -> Iterator[Row]:
    """Is the kernel new enough?"""
    release = platform.release()
    numbers = re.match(r"(\d+)\.(\d+)", release)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    purpose = "uN, the SRv6 function that switches run"
    yield judged("Linux 6.1", version >= MIN_KERNEL, f"{platform.system()} {release}", purpose, NEW_KERNEL)


def features() -> Iterator[Row]:
    """What the kernel can do, tried in a namespace that vanishes."""
    from testbed import scratch  # loads the netlink library: only here

    try:
        troubles = scratch.try_features()
    except scratch.NotSeen as error:
        state: State = "missing" if os.geteuid() == 0 else "unknown"
        fix = "give this container CAP_SYS_ADMIN and CAP_NET_ADMIN" if os.geteuid() == 0 else "run doctor as root"
        yield Row("network namespaces", state, f"not allowed to make {error}", "the nodes of a lab", fix)
        return
    for name, (purpose, fix) in FEATURE_NEEDS.items():
        trouble = troubles[name]
        if trouble and os.geteuid() != 0:  # root of a user namespace may do less than root
            yield Row(name, "unknown", f"without root: {trouble}", purpose, "run doctor as root")
        else:
            yield judged(name, not trouble, trouble or "tried, works", purpose, fix)


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
    yield judged("port programs", not computed, found, purpose, fix, "degraded")


def delay() -> Iterator[Row]:
    """Can links have a delay? Only labs that ask for it need that; `up` refuses them where it is missing."""
    from testbed.fabric import netem  # loads the netlink library

    purpose = "delay and jitter of links"
    if os.geteuid() != 0:
        yield Row("netem", "unknown", "cannot be tried without root", purpose, "run doctor as root")
        return
    trouble = netem.trouble()
    yield judged("netem", not trouble, trouble or "tried, works", purpose, netem.FIX, "degraded")
