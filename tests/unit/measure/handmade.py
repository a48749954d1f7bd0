"""Recorded runs written by hand: 4 planes, 2 racks x 2 hosts, 4 T1s; h0 and h2, h1 and h3 send to each other.

Times in the calls are seconds from the start of the traffic. Every plane of every flow brings PLANE_BPS unless `rate`
says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.wire import ev as entropy
from testbed.measure.jobs import Interruption, JobResult
from testbed.measure.record import (
    EvChanged,
    Fault,
    FaultActed,
    Flow,
    FlowTotals,
    PacketLost,
    PortChanged,
    Received,
    Run,
    Seen,
)
from testbed.topology import clos
from testbed.topology.labspec import LabSpec
from testbed.topology.port_stamps import PortStamps
from testbed.topology.sizes import payload_share

PLANE_BPS = 10e6
STOP_S = 8.0
START_NS = 1_000_000_000_000
LINK = "p1t0-0:p1t1-2"  # a T0-T1 link; every flow here has a path over it
NIC_LINK = "h0:p1t0-0"  # only h0's flows do
EV = entropy.make(1, 2)  # crosses LINK
OTHER_EV = entropy.make(1, 3)

Rate = Callable[[str, int, float], float]


def ns(seconds: float) -> int:
    """The clock at so many seconds after the start of the traffic."""
    return START_NS + round(seconds * 1e9)


def run(
    rate: Rate = lambda flow, plane, t_s: PLANE_BPS,
    offered_bps: float = 4 * PLANE_BPS,
    faults: tuple[Fault, ...] = (),
    warmup_s: float = 1.0,
) -> Run:
    """A run of STOP_S seconds, sampled every 50 ms."""
    spec = LabSpec(name="handmade", planes=4, t0_groups=2, hosts_per_t0=2, t1s_per_plane=4)
    flows = [Flow(src, dst, offered_bps) for src, dst in (("h0", "h2"), ("h1", "h3"), ("h2", "h0"), ("h3", "h1"))]
    made = Run(
        scenario="by-hand",
        lab="handmade",
        seed=7,
        clos=clos.build(spec),
        flows=flows,
        start_ns=START_NS,
        stop_ns=ns(STOP_S),
        warmup_ns=round(warmup_s * 1e9),
        faults=list(faults),
        totals={flow.name: FlowTotals(bytes_delivered=1000, messages_sent=10, messages_delivered=10) for flow in flows},
    )
    for flow in flows:
        made.received[flow.name] = _samples(flow.name, rate, spec.planes)
    return made


def _samples(flow: str, rate: Rate, planes: int) -> list[Received]:
    step_s = 0.05
    total = [0.0] * planes
    samples = [Received(ns(0), (0,) * planes)]
    for i in range(round(STOP_S / step_s)):
        for plane in range(planes):
            total[plane] += rate(flow, plane, i * step_s) * step_s / 8
        samples.append(Received(ns((i + 1) * step_s), tuple(round(value) for value in total)))
    return samples


def fault(at_s: float, until_s: float | None, target: str = LINK, number: int = 1, by: str = "run") -> Fault:
    """A link-down whose acts took no time."""
    until_ns = None if until_s is None else ns(until_s)
    return Fault(
        number,
        "link-down",
        target,
        "near",
        ns(at_s),
        ns(at_s),
        until_ns,
        until_ns,
        by,
        links=(target,),
        damage=((target, 0.0),),
        entry=0,
    )


def seen(lost: int, first_s: float, last_s: float, used_s: float, dead: bool = True) -> Seen:
    """What the port at the near end of LINK noted: data taken from the first to the last, and its last use."""
    longest_ns = ns(used_s) - ns(first_s)
    return Seen("p1t0-0>p1t1-2", dead, PortStamps(lost, ns(first_s), ns(last_s), ns(first_s), ns(used_s), longest_ns))


def job(of_line_rate: float = 1.0, operations: int = 10, interruptions: tuple[Interruption, ...] = ()) -> JobResult:
    """A ring all-reduce of four ranks that was asked for ten operations, at a share of what a host can send."""
    size, ranks = 1 << 20, 4
    bus_bps = of_line_rate * 4 * 20e6 * payload_share()
    took_ns = round(2 * (ranks - 1) / ranks * size * 8e9 / bus_bps)
    times = [(ns(1) + i * took_ns, ns(1) + (i + 1) * took_ns, 1) for i in range(operations) for _ in range(ranks)]
    counted = dict.fromkeys(("bytes_wrong", "messages_unexpected"), 0)
    return JobResult(
        workload=1,
        kind="ring_allreduce",
        ranks=ranks,
        qps_per_pair=1,
        message_bytes=size,
        operations=operations,
        wanted=10,
        failed=False,
        interruptions=interruptions,
        restart_cost_ns=None,
        times=times,
        bytes_delivered=ranks * operations * size,
        bytes_sent=ranks * operations * size,
        **counted,
    )


def loss(sent_s: float, ev: int = EV, flow: str = "h0>h2", after_s: float = 0.05) -> PacketLost:
    """A packet taken for lost `after_s` after it was sent."""
    return PacketLost(ns(sent_s + after_s), flow, ev, 1, ns(sent_s), "overdue")


def ev_change(at_s: float, new: str, ev: int = EV, flow: str = "h0>h2") -> EvChanged:
    """An EV's new state."""
    old = "GOOD" if new == "ASSUMED_BAD" else "ASSUMED_BAD"
    return EvChanged(ns(at_s), flow, ev, old, new, "a packet on it was lost")


def port_change(at_s: float, up: bool, host: str = "h0", end: str = "own", flow: str = "h0>h2") -> PortChanged:
    """A queue pair gave plane 1 up, or took it back."""
    return PortChanged(ns(at_s), host, 1, up, end, flow)


def cut(until_s: float = 4) -> Run:
    """A run in which LINK is down from 3 s on, costs one packet, and its path comes back 0.2 s after that."""
    made = run(faults=(fault(3, until_s),))
    made.events += [
        FaultActed(ns(3), 1, "link-down", LINK, "near", True, ns(3)),
        loss(3.01),
        ev_change(3.05, "ASSUMED_BAD"),
        FaultActed(ns(until_s), 1, "link-down", LINK, "near", False, ns(until_s)),
        ev_change(until_s + 0.2, "GOOD"),
    ]
    return made
