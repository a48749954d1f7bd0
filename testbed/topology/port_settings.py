"""What a port does with packets, as data in people's units: queue, ECN, trimming, and the faults it can have.

`port.bpf.c` acts on it on the kernel lab, `testbed.sim.link` in virtual time. `planned` says what a lab file asks of a
port; the lab file uses the same names (`labspec.Queue`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from testbed.topology.clos import Clos, Link, Port

CONTROL_EXTRA_BYTES = 256 * 1024  # what control may take when data has filled the queue: 2 000 trimmed packets
PROBABILITY_DIGITS = 9  # a probability is kept by the port in units of 2^-32, and said with as many digits

BlackHole = Literal["none", "data", "all"]
MatchKind = Literal["none", "usid", "ev"]


@dataclass(frozen=True, slots=True, order=True)
class PortSettings:
    """Settings of the port `device`; probabilities are 0..1. Raises ValueError for what makes no sense.

    Up to `kmin_bytes` of queue no packet is marked, at `kmax_bytes` the fraction `pmax`, above all of them. Data that
    would make the queue longer than `trim_at_bytes` is trimmed, when it may be; the rest is dropped at `limit_bytes`.
    Control may take `control_extra_bytes` more. `loss` hits any packet, `match_loss` those of one uSID still in their
    address or one EV. A black hole swallows `data` and lets control pass, or `all`. `corrupt` spoils a bit of the
    payload of data, which the ICRC tells; `corrupt_unseen` as many bits as it takes for the ICRC to be right again.
    """

    device: str
    limit_bytes: int
    control_extra_bytes: int
    rate_bps: int  # of HTB; what the virtual queue drains with
    burst_ns: int  # likewise
    trim_at_bytes: int = 0
    kmin_bytes: int = 0
    kmax_bytes: int = 0
    pmax: float = 0.0
    trimming: bool = False
    ecn: bool = False
    last_hop: bool = False  # towards a host: what is trimmed here says that the receiver was full, not the path
    loss: float = 0.0
    match_kind: MatchKind = "none"
    match_value: int = 0
    match_loss: float = 0.0
    black_hole: BlackHole = "none"
    corrupt: float = 0.0
    corrupt_unseen: bool = False
    watch_evs: bool = False  # note when each EV of each pair of hosts was used last
    virtual_queue: bool = False  # decide on a computed queue, not on HTB's

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int | float) and value < 0:
                raise ValueError(f"{item.name} is {value}; it cannot be negative")
        for name in ("pmax", "loss", "match_loss", "corrupt"):
            if getattr(self, name) > 1:
                raise ValueError(f"{name} is {getattr(self, name):.4g}; a probability is 0 to 1")
        if self.kmin_bytes > self.kmax_bytes:
            raise ValueError(f"kmin_bytes {self.kmin_bytes} is above kmax_bytes {self.kmax_bytes}")
        if self.match_loss and self.match_kind == "none":
            raise ValueError("match_loss needs match_kind: the loss of which packets?")


def planned(clos: Clos, port: Port, link: Link, burst_ns: int = 0) -> PortSettings:
    """What the lab file says about a port: a NIC's own only holds and drops, a switch's marks and trims."""
    queue = clos.spec.queue
    from_switch = clos.nodes[port.node].kind != "host"
    last_hop = clos.nodes[clos.peer(port, link).node].kind == "host"
    return PortSettings(
        device=port.name,
        limit_bytes=queue.size,
        control_extra_bytes=CONTROL_EXTRA_BYTES,
        rate_bps=link.rate_bps,
        burst_ns=burst_ns,
        trim_at_bytes=min(queue.trim_at, queue.size),
        kmin_bytes=queue.kmin,
        kmax_bytes=queue.kmax,
        pmax=queue.pmax,
        trimming=queue.trimming and from_switch,
        ecn=queue.ecn and from_switch and (queue.ecn_last_hop or not last_hop),
        last_hop=last_hop,
    )
