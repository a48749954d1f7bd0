"""A fault by the ports' stamps: what they took, how long a dead path was used, and where agents tell another story."""

from dataclasses import replace

import pytest

from testbed.measure import faults, ports_view
from testbed.measure.record import Fault, Run, Seen
from testbed.topology.port_stamps import PortStamps
from tests.unit.measure import handmade
from tests.unit.measure.handmade import loss, ns, seen


def run(*noted: Seen, lost: int = 0, others: tuple[Fault, ...] = ()) -> Run:
    """A link is dead from 3 s to 4 s; senders lose a packet every 4 ms from 3.01 s on."""
    made = handmade.run(faults=(replace(handmade.fault(3, 4), seen=noted), *others))
    made.events += [loss(3.01 + 0.004 * number) for number in range(lost)]
    made.round_trips = [(ns(1), 8_000_000), (ns(2), 10_000_000), (ns(3.5), 99_000_000)]
    return made


def disagreements(made: Run) -> list[str]:
    return list(ports_view.disagreements(made, faults.costs(made)))


def test_the_time_until_a_dead_path_is_unused_counts_from_the_first_packet_it_took() -> None:
    made = run(seen(5, 3.02, 3.03, 3.045))
    view = ports_view.of_fault(made, made.faults[0])
    assert (view.lost_data, view.rerouted_s) == (5, pytest.approx(0.01))
    assert view.unused_s == pytest.approx(0.025)
    assert view.round_trip_s == 0.01
    assert view.unused_round_trips == pytest.approx(2.5)


def test_at_a_port_that_only_sends_into_what_is_dead_it_counts_from_the_fault() -> None:
    made = run(Seen("p1t0-0>p1t1-2", True, PortStamps(last_use_ns=ns(3.04))))
    view = ports_view.of_fault(made, made.faults[0])
    assert (view.lost_data, view.rerouted_s) == (None, None)
    assert view.unused_s == pytest.approx(0.04)


@pytest.mark.parametrize("dead", [True, False])
def test_a_port_that_works_or_was_not_used_is_not_asked(dead: bool) -> None:
    made = run(Seen("p1t0-0>p1t1-2", dead, PortStamps(last_use_ns=ns(2.9 if dead else 3.9))))
    assert ports_view.of_fault(made, made.faults[0]).unused_s is None


def test_when_both_say_the_same_there_is_nothing_to_tell() -> None:
    assert disagreements(run(seen(6, 3.01, 3.04, 3.04), lost=8)) == []


def test_packets_that_no_port_took_and_other_times_are_told() -> None:
    packets, times = disagreements(run(seen(6, 3.01, 3.11, 3.11), lost=9))
    assert packets.endswith("the ports took 6 data packets, the senders say 9")
    assert "rerouted in 100.0 ms by the ports' stamps, in 32.0 ms by the senders'" in times


def test_of_faults_that_share_a_link_nobody_can_say() -> None:
    other = replace(handmade.fault(3.5, 5), number=2)
    assert disagreements(run(seen(6, 3.01, 3.11, 3.11), lost=9, others=(other,))) == []
