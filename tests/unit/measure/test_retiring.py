"""How long senders took to retire the EVs that a fault killed: from the port's stamp, in round trips of the EV."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.measure import retiring
from testbed.measure.record import Fault, PacketLost, Run, Seen
from testbed.topology.port_stamps import PortStamps
from tests.unit.measure import handmade
from tests.unit.measure.handmade import EV, OTHER_EV, ev_change, loss, ns

MS = 1_000_000


def lost(sent_s: float, t_s: float, ev: int = EV, flow: str = "h0>h2", rtt_ms: int = 10) -> PacketLost:
    """A packet sent at `sent_s` that is taken for lost at `t_s` by reports, with a window of half a round trip."""
    told = loss(sent_s, ev, flow, after_s=t_s - sent_s)
    return replace(told, rtt_ns=rtt_ms * MS, window_ns=rtt_ms * MS // 2)


def run(*first_lost: tuple[int, int, int, int]) -> Run:
    """A link is dead from 3 s to 4 s. h0's EV over it is retired at 3.030 s, for a packet sent at 3.010 s."""
    seen = Seen("p1t0-0>p1t1-2", True, PortStamps(first_drop_ns=ns(3.015), first_lost=first_lost))
    made = handmade.run(faults=(replace(handmade.fault(3, 4), seen=(seen,)),))
    made.round_trips = [(ns(2), 8 * MS)]
    made.events += [lost(3.010, 3.030), ev_change(3.030, "ASSUMED_BAD")]
    return made


def test_from_the_moment_at_which_the_port_took_its_first_packet() -> None:
    seen = retiring.of_fault(*with_fault(run((0, 2, EV, ns(3.016)))))
    assert (seen.evs, seen.stamped) == (1, 1)
    assert seen.after_s == pytest.approx(0.014)
    assert (seen.after_round_trips, seen.window_round_trips) == (pytest.approx(1.4), 0.5)


def with_fault(made: Run) -> tuple[Run, Fault]:
    return made, made.faults[0]


@pytest.mark.parametrize("others", [(0, 3, EV), (2, 0, EV), (0, 2, OTHER_EV)])
def test_stamps_of_other_hosts_and_evs_are_not_its_own(others: tuple[int, int, int]) -> None:
    seen = retiring.of_fault(*with_fault(run((*others, ns(3.029)))))
    assert seen.stamped == 0
    assert seen.after_round_trips == pytest.approx(2), "from when the packet was sent"


def test_a_packet_that_was_sent_before_the_fault_was_lost_when_that_came() -> None:
    made = run()
    made.events.insert(0, lost(2.990, 3.030))
    assert retiring.of_fault(*with_fault(made)).after_round_trips == pytest.approx(3)


def test_the_median_of_the_evs_and_each_only_once() -> None:
    made = run((0, 2, EV, ns(3.016)))
    made.events += [ev_change(3.2, "GOOD"), lost(3.3, 3.4), ev_change(3.4, "ASSUMED_BAD")]
    for flow, took_s in (("h1>h3", 0.02), ("h2>h0", 0.04)):
        made.events += [lost(3.1, 3.1 + took_s, flow=flow), ev_change(3.1 + took_s, "ASSUMED_BAD", flow=flow)]
    seen = retiring.of_fault(*with_fault(made))
    assert (seen.evs, seen.stamped) == (3, 1)
    assert seen.after_round_trips == pytest.approx(2)


def test_what_no_report_retired_is_counted_in_round_trips_before_the_fault() -> None:
    made = run()
    made.events[:] = [loss(3.010, after_s=0.020), ev_change(3.030, "ASSUMED_BAD")]
    seen = retiring.of_fault(*with_fault(made))
    assert (seen.after_round_trips, seen.window_round_trips) == (pytest.approx(2.5), None)


def test_evs_of_other_links_those_that_lost_nothing_and_those_retired_after_it_are_not_its_own() -> None:
    made = handmade.run(faults=(handmade.fault(3, 4),))
    made.events += [lost(3.01, 3.03, OTHER_EV), ev_change(3.03, "ASSUMED_BAD", OTHER_EV)]
    made.events += [ev_change(3.04, "DENIED"), ev_change(3.05, "GOOD"), lost(4.5, 4.6), ev_change(4.6, "ASSUMED_BAD")]
    assert retiring.of_fault(*with_fault(made)) == retiring.Retiring(0, 0, None, None, None)
