"""Delay of a port by netem, where the kernel has it: in the place of the two leaf queues below HTB.

The queue limits are enforced before HTB (port.bpf.c), so netem only has to hold what is there: its own limit is the
number of smallest packets that fit.
"""

from __future__ import annotations

import errno
import struct
from functools import partial

from testbed.fabric.netlink import (
    NLM_F_ACK,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NLM_F_REQUEST,
    Kernel,
    KernelError,
    Request,
)
from testbed.fabric.plan import TICK_NS, FabricPlan, Qdisc
from testbed.topology.clos import Port
from testbed.topology.errors import MissingError

_NEWQDISC, _DELQDISC = 36, 37
_TCA_KIND, _TCA_OPTIONS = 1, 2
_HEADER = struct.Struct("=IHHII")
_TCMSG = struct.Struct("=BxxxiIII")
_NETEM = struct.Struct("=6I")  # struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter
_LIMIT_PACKETS = 1 << 20
_HANDLE_OFFSET = 0x100000  # of a netem from the leaf whose place it takes
_ROOT = 0xFFFFFFFF
_LOOPBACK = 1


def require(kernel: Kernel, node: str) -> None:
    """Raises MissingError when the kernel has no netem. Tried on the loopback of a node, which has no queue."""
    try:
        kernel[node].send([_request(_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, _LOOPBACK, 1 << 16, _ROOT, _netem(0, 0))])
    except KernelError as error:
        if error.number != errno.ENOENT:
            raise
        raise MissingError("netem in the kernel", "delays links", "modprobe sch_netem") from None
    kernel[node].send([_request(_DELQDISC, 0, _LOOPBACK, 1 << 16, _ROOT, b"")])


def set_delay(kernel: Kernel, plan: FabricPlan, port: Port, delay_ns: int, jitter_ns: int) -> None:
    """Delay what a port sends; 0 for both gives the planned queues back."""
    graft = partial(_request, _NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, port.ifindex)
    requests = []
    for leaf in _leaves(plan, port):
        if delay_ns or jitter_ns:
            requests.append(graft(leaf.handle + _HANDLE_OFFSET, leaf.parent, _netem(delay_ns, jitter_ns)))
        else:
            options = _attribute(_TCA_OPTIONS, struct.pack("=I", leaf.limit_bytes))
            requests.append(graft(leaf.handle, leaf.parent, _attribute(_TCA_KIND, b"bfifo\0") + options))
    kernel[port.node].send(requests)


def _leaves(plan: FabricPlan, port: Port) -> list[Qdisc]:
    return [item for item in plan.nodes[port.node].qdiscs if item.device == port.name and item.kind == "bfifo"]


def _netem(delay_ns: int, jitter_ns: int) -> bytes:
    options = _NETEM.pack(delay_ns // TICK_NS, _LIMIT_PACKETS, 0, 0, 0, jitter_ns // TICK_NS)
    return _attribute(_TCA_KIND, b"netem\0") + _attribute(_TCA_OPTIONS, options)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _request(kind: int, flags: int, ifindex: int, handle: int, parent: int, attributes: bytes) -> Request:
    body = _TCMSG.pack(0, ifindex, handle, parent, 0) + attributes
    flags |= NLM_F_REQUEST | NLM_F_ACK
    return Request(_HEADER.pack(_HEADER.size + len(body), kind, flags, 0, 0) + body, f"delay on device {ifindex}")
