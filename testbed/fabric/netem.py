"""Delay of a port by netem, where the kernel has it: in the place of the two leaf queues below HTB.

Delay is the one thing of a port that HTB and eBPF cannot do, and netem is a module that many machines lack: whether it
is there is tried, not guessed, in a namespace that nobody else sees. A lab file may ask for delay (`plan`), and so
may a fault (`set_delay`).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from dataclasses import replace

from testbed.fabric import messages, netns
from testbed.fabric.netlink import Kernel
from testbed.fabric.plan import FabricPlan, Qdisc
from testbed.topology.clos import Port
from testbed.topology.errors import MissingError

_LOOPBACK = 1
_RECEIVE_BYTES = 1 << 16
_ERRNO = struct.Struct("=16xi")  # after the header of an NLMSG_ERROR
_HANDLE_OFFSET = 0x100000  # of a fault's netem from the leaf whose place it takes
_LEAVES = ("bfifo", "netem")
FIX = "modprobe sch_netem"


def trouble() -> str:
    """What the kernel says against it; empty when it has netem. Needs root."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(_try()))  # its namespace goes with it
    thread.start()
    thread.join()
    return found[0]


def _try() -> str:
    try:
        netns.leave()
    except OSError as error:
        return f"not allowed to try: {os.strerror(error.errno or 0).lower()}"
    delayed = Qdisc("lo", "netem", 0x10000, 0xFFFFFFFF, delay_ns=1_000_000)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(messages.qdisc(delayed, _LOOPBACK).message)
        number = -_ERRNO.unpack_from(kernel.recv(_RECEIVE_BYTES))[0]
    if number == errno.ENOENT:
        return "this kernel has none"
    return os.strerror(number).lower() if number else ""


def require(purpose: str) -> None:
    """Raises MissingError when the kernel has no netem; `purpose` says who asks for it."""
    if why := trouble():
        raise MissingError(f"netem is missing: {why}", purpose, FIX)


def require_for(plan: FabricPlan) -> None:
    """Raises MissingError when a lab asks for delay and the kernel has none."""
    if any(item.kind == "netem" for node in plan.nodes.values() for item in node.qdiscs):
        require("the lab file asks for delay on its links")


def set_delay(kernel: Kernel, plan: FabricPlan, port: Port, delay_ns: int, jitter_ns: int) -> None:
    """Delay what a port sends by so much more than the plan says; 0 for both gives the planned leaves back."""
    leaves = [item for item in plan.nodes[port.node].qdiscs if item.device == port.name and item.kind in _LEAVES]
    if delay_ns or jitter_ns:
        leaves = [
            replace(
                leaf,
                kind="netem",
                handle=leaf.handle + _HANDLE_OFFSET,
                limit_bytes=0,
                delay_ns=leaf.delay_ns + delay_ns,
                jitter_ns=leaf.jitter_ns + jitter_ns,
            )
            for leaf in leaves
        ]
    kernel[port.node].send([messages.qdisc(leaf, port.ifindex, instead=True) for leaf in leaves])
