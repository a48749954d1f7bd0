"""What each fault cost: packets, time until traffic went around it, time until its EVs were back, dip in goodput.

Counted from agents' events and the moments at which the fault was really put in and undone, all on one clock. The
samples serve only for the dip.

A sender says of a lost packet when and on which EV it was sent; the EV names the links. A packet that was sent before
the fault and still caught by it (it stood in a queue) was dropped after the fault began, so its drop is dated at
`max(sent, fault began)`. Sent later than that by its time in queues, every packet is dropped: the same for the first
and the last within the queues' difference, so that their difference, the time to reroute, is right to that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from testbed.measure import series
from testbed.measure.record import GOOD_STATES, Fault, PacketLost, Run

IN_FLIGHT_NS = 1_000_000_000  # the longest that a packet can have been on its way when the fault caught it
LATE_LOSS_NS = 200_000_000  # and the longest that a sender may need to see the loss after the fault has ended
DIP_LEAD_NS = 100_000_000  # the dip is looked for from so long before the fault ...
DIP_TAIL_NS = 1_000_000_000  # ... to so long after its end
CLEAN_NS = 1_000_000_000  # and compared with so much time without a fault
RESTORED_FRACTION = 0.95  # of that: goodput is restored with the end of the last bin below it

Changes = list[tuple[int, bool]]  # (when, in use from then on)


@dataclass(frozen=True, slots=True)
class FaultCost:
    """One fault's figures; None where there is nothing to measure (no packet lost, no EV to restore, no flow).

    `first_loss_s` and `last_loss_s` count from the fault, `restored_s` from its end, `rerouted_s` from the first drop
    to the last. `worst_flow_losses` is the largest number of packets that one flow lost. `evs_retired` counts EVs of
    flows, and planes that ends of flows gave up. The dip is that of the flows that have a path over the fault:
    `dip_fraction` its depth, `dip_bytes` its area, `recovered_s` its end, from the fault on (0: no bin was low,
    infinite: the last one still was).
    """

    fault: Fault
    packets_lost: int
    worst_flow_losses: int
    evs_retired: int
    first_loss_s: float | None
    last_loss_s: float | None
    rerouted_s: float | None
    restored_s: float | None
    evs_not_restored: int
    dip_fraction: float | None
    dip_bytes: float | None
    recovered_s: float | None
    dip_bins: int


def cost(run: Run, fault: Fault) -> FaultCost:
    """The figures of one fault of a run."""
    return _cost(run, fault, _History(run))


def costs(run: Run) -> list[FaultCost]:
    """The figures of all faults, in the order in which they were put in."""
    history = _History(run)
    return [_cost(run, fault, history) for fault in run.faults]


class _History:
    """What senders lost and gave up, by the link that it crosses: sorted once for all faults of a run."""

    def __init__(self, run: Run) -> None:
        self.losses: dict[str, list[PacketLost]] = {}
        for loss in run.losses():
            for link in run.path_of(loss.flow, loss.ev):
                self.losses.setdefault(link, []).append(loss)
        evs: dict[tuple[str, int], Changes] = {}
        for one in run.ev_changes():
            evs.setdefault((one.flow, one.ev), []).append((one.t_ns, one.new in GOOD_STATES))
        planes: dict[tuple[str, str, int], Changes] = {}
        given_up_for: dict[tuple[str, str, int], set[str]] = {}  # links
        for change in run.port_changes():
            key = (change.flow, change.host, change.plane)
            planes.setdefault(key, []).append((change.t_ns, change.up))
            if not change.up:
                given_up_for.setdefault(key, set()).add(run.nic_link_of(change))
        self._by_link: dict[str, list[tuple[frozenset[str], Changes]]] = {}
        for (flow, ev), changes in evs.items():
            path = run.path_of(flow, ev)
            for link in path:
                self._by_link.setdefault(link, []).append((path, changes))
        for key, links in given_up_for.items():
            for link in links:
                self._by_link.setdefault(link, []).append((frozenset(links), planes[key]))

    def losses_over(self, links: Iterable[str]) -> list[PacketLost]:
        """The losses on paths over some of these links, each once."""
        return list({id(loss): loss for link in links for loss in self.losses.get(link, [])}.values())

    def changes_over(self, links: Iterable[str]) -> list[tuple[frozenset[str], Changes]]:
        """(links of its path, changes) of EVs that cross one of these, and of ends that gave up a plane there."""
        found = {id(changes): (path, changes) for link in links for path, changes in self._by_link.get(link, [])}
        return list(found.values())


def _cost(run: Run, fault: Fault, history: _History) -> FaultCost:
    drops = _drops(run, fault, history)
    times = sorted(t_ns for _, t_ns in drops)
    per_flow: dict[str, int] = {}
    for flow, _ in drops:
        per_flow[flow] = per_flow.get(flow, 0) + 1
    restored_s, missing = _restoration(run, fault, history)
    dip = _dip(run, fault)
    return FaultCost(
        fault=fault,
        packets_lost=len(drops),
        worst_flow_losses=max(per_flow.values(), default=0),
        evs_retired=_retired(run, fault, history),
        first_loss_s=(times[0] - fault.since_ns) / 1e9 if times else None,
        last_loss_s=(times[-1] - fault.since_ns) / 1e9 if times else None,
        rerouted_s=(times[-1] - times[0]) / 1e9 if times else None,
        restored_s=restored_s,
        evs_not_restored=missing,
        dip_fraction=dip.fraction,
        dip_bytes=dip.missing_bytes,
        recovered_s=dip.recovered_s,
        dip_bins=dip.bins,
    )


def _drops(run: Run, fault: Fault, history: _History) -> list[tuple[str, int]]:
    """(flow, time of the drop) of the packets whose path crossed the fault while it was there."""
    end_ns = run.stop_ns if fault.until_ns is None else fault.until_ns
    earlier_ends = [
        other.until_ns
        for other in run.faults
        if other.until_ns is not None and other.until_ns <= fault.since_ns and set(other.links) & set(fault.links)
    ]
    begin_ns = max([fault.since_ns - run.of_lab(IN_FLIGHT_NS), *earlier_ends])
    return [
        (loss.flow, max(loss.sent_ns, fault.since_ns))
        for loss in history.losses_over(fault.links)
        if begin_ns <= loss.sent_ns <= end_ns and loss.t_ns >= fault.since_ns
    ]


def _restoration(run: Run, fault: Fault, history: _History) -> tuple[float | None, int]:
    """(seconds from the end of the fault until the last EV that it took was in use again, those that never were).

    A plane that a queue pair gave up with its port counts as one EV. What another fault holds down at that time, or
    breaks before it is back, is that fault's to account for.
    """
    if fault.up_ns is None:
        return None, 0
    back_ns: list[int] = []
    missing = 0
    late_ns = fault.up_ns + run.of_lab(LATE_LOSS_NS)
    for path, changes in history.changes_over(fault.links):
        taken = [place for place, (t_ns, in_use) in enumerate(changes) if not in_use and t_ns <= late_ns]
        if not taken:
            continue
        restored_ns = next((t_ns for t_ns, in_use in changes[taken[-1] :] if in_use), None)
        if restored_ns is not None and restored_ns <= fault.up_ns:
            continue  # it was something before this fault
        if _broken_meanwhile(run, fault, path, run.stop_ns if restored_ns is None else restored_ns):
            continue
        if restored_ns is None:
            missing += 1
        else:
            back_ns.append(restored_ns)
    return ((max(back_ns) - fault.up_ns) / 1e9 if back_ns else None), missing


def _broken_meanwhile(run: Run, fault: Fault, path: frozenset[str], until_ns: int) -> bool:
    assert fault.up_ns is not None
    return any(
        not path.isdisjoint(other.links)
        and other.since_ns < until_ns
        and (other.until_ns is None or other.until_ns > fault.up_ns)
        for other in run.faults
        if other.number != fault.number
    )


def _retired(run: Run, fault: Fault, history: _History) -> int:
    end_ns = run.stop_ns if fault.until_ns is None else fault.until_ns + run.of_lab(LATE_LOSS_NS)
    return sum(
        any(not in_use and fault.since_ns <= t_ns <= end_ns for t_ns, in_use in changes)
        for _, changes in history.changes_over(fault.links)
    )


@dataclass(frozen=True, slots=True)
class _Dip:
    """Of the affected flows' goodput: the largest fraction missing in a bin, the bytes missing in all, and when it was
    back to `RESTORED_FRACTION`, from the fault on; of so many bins."""

    fraction: float | None = None
    missing_bytes: float | None = None
    recovered_s: float | None = None
    bins: int = 0


def _dip(run: Run, fault: Fault) -> _Dip:
    flows = sorted({flow.name for link in fault.links for flow in run.flows_over(link)})
    clean = _clean_second(run, fault)
    if not flows or clean is None:
        return _Dip()
    usual = series.mean_goodput(run, flows, *clean)
    end_ns = min(run.stop_ns, (fault.until_ns or run.stop_ns) + run.of_lab(DIP_TAIL_NS))
    edges = series.run_edges(run, fault.since_ns - run.of_lab(DIP_LEAD_NS), end_ns)
    bins = series.goodput_bins(run, flows, edges)
    if not bins or usual <= 0:
        return _Dip()
    missing_bytes = sum(max(0.0, usual - goodput) for goodput in bins) * run.of_lab(series.BIN_NS) / 8e9
    low = [number for number, goodput in enumerate(bins) if goodput < RESTORED_FRACTION * usual]
    recovered_s = max(0.0, (edges[low[-1] + 1] - fault.since_ns) / 1e9) if low else 0.0
    if low and low[-1] == len(bins) - 1:
        recovered_s = inf
    return _Dip(max(0.0, 1 - min(bins) / usual), missing_bytes, recovered_s, len(bins))


def _clean_second(run: Run, fault: Fault) -> tuple[int, int] | None:
    """The last second before a fault in which none was active, after the warm-up; shorter if there is no whole one."""
    lead_ns, clean_ns = run.of_lab(DIP_LEAD_NS), run.of_lab(CLEAN_NS)
    latest_ns = fault.since_ns - lead_ns
    busy = sorted(
        (other.since_ns, (other.until_ns or run.stop_ns) + lead_ns)
        for other in run.faults
        if other.since_ns < latest_ns
    )
    gaps = []
    free_from_ns = run.measured_from_ns
    for since_ns, until_ns in [*busy, (latest_ns, latest_ns)]:
        if since_ns > free_from_ns:
            gaps.append((max(free_from_ns, since_ns - clean_ns), since_ns))
        free_from_ns = max(free_from_ns, until_ns)
    whole = [gap for gap in gaps if gap[1] - gap[0] == clean_ns]
    if whole:
        return whole[-1]
    return max(gaps, key=lambda gap: gap[1] - gap[0], default=None)
