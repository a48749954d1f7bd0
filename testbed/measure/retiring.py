"""How long senders take to retire the EVs that a fault killed, from the first loss on, in round trips.

The start is the fabric's word: the moment at which a port took the first packet of that EV between that pair of hosts
(`PortStamps.first_lost`). The end is the agent's: the change of the EV's state. Where no port noted a drop (a port that
sends into a dead link does not), the start is when the first packet that was lost was sent, or the fault, whichever is
later.

The round trip is the one that the sender expected of that very EV when it judged, smoothed from packets that had met
the load of the time; the window is the reorder window by which it judged. An EV that was retired by something else than
reports (a timeout) has neither, and the round trip before the fault stands in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from testbed.measure import ports_view
from testbed.measure.record import GOOD_STATES, EvChanged, Fault, PacketLost, Run


@dataclass(frozen=True, slots=True)
class Retirement:
    """An EV of a flow: when its first packet was lost, and when the EV was retired for that; ns.

    `stamped`: a port says when it was lost. `round_trip_ns` and `window_ns` are 0 where there was none.
    """

    flow: str
    ev: int
    lost_ns: int
    retired_ns: int
    round_trip_ns: int
    window_ns: int
    stamped: bool

    @property
    def took_ns(self) -> int:
        """From the loss to the retirement."""
        return self.retired_ns - self.lost_ns


@dataclass(frozen=True, slots=True)
class Retiring:
    """Of the `evs` that a fault made flows retire; medians, None where there is nothing to measure.

    `after_s` from the first loss on, `stamped` of them by a port's stamp, and the same in round trips of the EV;
    `window_round_trips` is the reorder window.
    """

    evs: int
    stamped: int
    after_s: float | None
    after_round_trips: float | None
    window_round_trips: float | None


def of_fault(run: Run, fault: Fault) -> Retiring:
    """The medians of a fault."""
    found = list(retirements(run, fault))
    trips = [(one, one.round_trip_ns) for one in found if one.round_trip_ns]
    return Retiring(
        evs=len(found),
        stamped=sum(one.stamped for one in found),
        after_s=median(one.took_ns for one in found) / 1e9 if found else None,
        after_round_trips=median(one.took_ns / trip_ns for one, trip_ns in trips) if trips else None,
        window_round_trips=_median([one.window_ns / trip_ns for one, trip_ns in trips if one.window_ns]),
    )


def retirements(run: Run, fault: Fault) -> Iterator[Retirement]:
    """The first time that each flow retired an EV over the links of a fault while it was in, for a loss."""
    links = set(fault.links)
    first_lost = {(src, dst, ev): t_ns for one in reversed(fault.seen) for src, dst, ev, t_ns in one.stamps.first_lost}
    losses: dict[tuple[str, int], list[PacketLost]] = {}
    for loss in run.losses():
        losses.setdefault((loss.flow, loss.ev), []).append(loss)
    before_ns = ports_view.round_trip_ns(run, fault.since_ns) or 0
    done = set()
    for change in run.ev_changes():
        key = (change.flow, change.ev)
        if key in done or not _retires(change, fault) or links.isdisjoint(run.path_of(*key)):
            continue
        lost = [loss for loss in losses.get(key, ()) if fault.since_ns <= loss.t_ns <= change.t_ns]
        if not lost:
            continue  # by the controller
        done.add(key)
        stamp_ns = first_lost.get((*run.hosts_of(change.flow), change.ev))
        sent_ns = max(min(loss.sent_ns for loss in lost), fault.since_ns)
        judged = next((loss for loss in lost if loss.t_ns == change.t_ns), lost[0])
        stamped = stamp_ns is not None and stamp_ns <= change.t_ns
        yield Retirement(
            flow=change.flow,
            ev=change.ev,
            lost_ns=stamp_ns if stamp_ns is not None and stamped else sent_ns,
            retired_ns=change.t_ns,
            round_trip_ns=judged.rtt_ns or before_ns,
            window_ns=judged.window_ns,
            stamped=stamped,
        )


def _retires(change: EvChanged, fault: Fault) -> bool:
    return (
        change.old in GOOD_STATES
        and change.new not in GOOD_STATES
        and change.t_ns >= fault.since_ns
        and (fault.until_ns is None or change.t_ns <= fault.until_ns)
    )


def _median(values: list[float]) -> float | None:
    return median(values) if values else None
