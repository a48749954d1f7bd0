"""A fault as the fabric's own ports saw it, beside what agents say of it: the second witness of each figure.

The ports' stamps are of the moment of the packet; an agent knows of a lost packet only when it was sent, and that is
sooner by its time in queues. So the two differ by what queues differ, and a sender may take a packet for lost that no
port has taken; when they differ by more than that, `disagreements` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.measure.faults import FaultCost
from testbed.measure.record import Fault, Run

SAME_PACKETS = 2  # so many packets, or ...
SAME_SHARE = 0.1  # ... so much of them, is the same number
SAME_NS = 30_000_000  # of the lab's time: three loaded round trips of a port of 20 Mb/s


@dataclass(frozen=True, slots=True)
class PortsView:
    """None where no port saw such a thing.

    `lost_data` packets of data were taken, the last `rerouted_s` after the first. `unused_s` is the longest time from
    the first packet of an EV of a pair of hosts that a dead port took to the last that came to it on that, whatever it
    was but a probe: then that path is out of use. A port that only sends into what is dead takes nothing: there it is
    the time from the fault to the last packet of all. `round_trip_s` is the loaded round trip before the fault, the
    median of all EVs.
    """

    lost_data: int | None
    rerouted_s: float | None
    unused_s: float | None
    round_trip_s: float | None

    @property
    def unused_round_trips(self) -> float | None:
        """How many of these round trips that is."""
        return self.unused_s / self.round_trip_s if self.unused_s is not None and self.round_trip_s else None


def of_fault(run: Run, fault: Fault) -> PortsView:
    """What the ports noted of a fault of a run."""
    taking = [one.stamps for one in fault.seen if one.stamps.lost_data]
    rerouted_ns = max((one.last_lost_data_ns for one in taking), default=0) - min(
        (one.first_lost_data_ns for one in taking), default=0
    )
    unused_ns = [
        one.stamps.longest_ns if one.stamps.first_drop_ns else one.stamps.last_use_ns - fault.since_ns
        for one in fault.seen
        if one.dead and one.stamps.last_use_ns >= fault.since_ns
    ]
    trip_ns = round_trip_ns(run, fault.since_ns)
    return PortsView(
        lost_data=sum(one.lost_data for one in taking) if taking else None,
        rerouted_s=rerouted_ns / 1e9 if taking else None,
        unused_s=max(unused_ns) / 1e9 if unused_ns else None,
        round_trip_s=trip_ns / 1e9 if trip_ns else None,
    )


def round_trip_ns(run: Run, t_ns: int) -> int | None:
    """The last reading before a time, else the first one after it."""
    before = [median_ns for when_ns, median_ns in run.round_trips if when_ns <= t_ns]
    return before[-1] if before else next((median_ns for _, median_ns in run.round_trips), None)


def disagreements(run: Run, costs: list[FaultCost]) -> Iterator[str]:
    """Where ports and agents tell two stories of a fault, in words; of faults that overlap nobody can say."""
    for cost in costs:
        fault, ports = cost.fault, of_fault(run, cost.fault)
        if ports.lost_data is None or _shared(run, fault):
            continue
        what = f"{fault.kind} {fault.target} at {run.seconds(fault.since_ns):.3f} s"
        if abs(ports.lost_data - cost.packets_lost) > max(SAME_PACKETS, SAME_SHARE * ports.lost_data):
            yield f"{what}: the ports took {ports.lost_data} data packets, the senders say {cost.packets_lost}"
        if cost.rerouted_s is None or ports.rerouted_s is None:
            continue
        if abs(ports.rerouted_s - cost.rerouted_s) * 1e9 > run.of_lab(SAME_NS) + SAME_SHARE * ports.rerouted_s * 1e9:
            took_ms, said_ms = 1e3 * ports.rerouted_s, 1e3 * cost.rerouted_s
            yield f"{what}: rerouted in {took_ms:.1f} ms by the ports' stamps, in {said_ms:.1f} ms by the senders'"


def _shared(run: Run, fault: Fault) -> bool:
    """Whether another fault was in at the same time that touches a link of this one."""
    return any(
        other.number != fault.number
        and set(other.links) & set(fault.links)
        and other.since_ns < (fault.until_ns or run.stop_ns)
        and fault.since_ns < (other.until_ns or run.stop_ns)
        for other in run.faults
    )
