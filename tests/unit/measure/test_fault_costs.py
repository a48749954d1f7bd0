"""What a fault cost, from runs written by hand: its own losses, the time to reroute, the time to heal, the dip."""

import pytest

from agents.wire import ev as entropy
from testbed.measure import faults
from tests.unit.measure import handmade
from tests.unit.measure.handmade import LINK, NIC_LINK, OTHER_EV, PLANE_BPS, ev_change, fault, loss, port_change

# --- packets


def test_losses_on_the_faulted_link_are_the_faults() -> None:
    run = handmade.run(faults=(fault(3, 4),))
    run.events += [loss(3.01), loss(3.03, flow="h2>h0"), loss(3.02)]
    cost = faults.cost(run, run.faults[0])
    assert (cost.packets_lost, cost.worst_flow_losses) == (3, 2)
    assert cost.first_loss_s == pytest.approx(0.01)
    assert cost.rerouted_s == pytest.approx(0.02)


def test_losses_on_other_paths_are_not() -> None:
    run = handmade.run(faults=(fault(3, 4),))
    run.events += [loss(3.01, ev=OTHER_EV), loss(3.01, ev=entropy.make(0, 2))]
    assert faults.cost(run, run.faults[0]).packets_lost == 0


def test_losses_while_the_link_was_up_are_not() -> None:
    run = handmade.run(faults=(fault(3, 4),))
    run.events += [loss(2.5, after_s=0.1), loss(4.2)]
    assert faults.cost(run, run.faults[0]).packets_lost == 0


def test_a_packet_on_its_way_when_the_link_broke_was_dropped_then_and_not_when_it_was_sent() -> None:
    run = handmade.run(faults=(fault(3, 4),))
    run.events += [loss(2.98), loss(3.01)]
    cost = faults.cost(run, run.faults[0])
    assert cost.packets_lost == 2
    assert cost.first_loss_s == 0
    assert cost.rerouted_s == pytest.approx(0.01)


def test_a_flap_does_not_inherit_the_losses_of_the_one_before() -> None:
    run = handmade.run(faults=(fault(3, 3.2), fault(3.4, 3.6, number=2)))
    run.events += [loss(3.1, after_s=0.4), loss(3.41)]
    assert [cost.packets_lost for cost in faults.costs(run)] == [1, 1]


def test_a_nic_link_concerns_both_directions_of_its_host_and_nobody_else() -> None:
    run = handmade.run(faults=(fault(3, 4, NIC_LINK),))
    run.events += [loss(3.01), loss(3.01, flow="h2>h0"), loss(3.01, flow="h1>h3")]
    assert faults.cost(run, run.faults[0]).packets_lost == 2


def test_without_a_loss_there_is_no_time_to_tell() -> None:
    cost = faults.cost(handmade.run(), fault(3, 4))
    assert (cost.packets_lost, cost.first_loss_s, cost.rerouted_s) == (0, None, None)


# --- restoration


def test_restored_when_the_last_ev_is_back() -> None:
    run = handmade.run(faults=(fault(3, 4),))
    run.events += [
        ev_change(3.02, "ASSUMED_BAD"),
        ev_change(3.03, "ASSUMED_BAD", flow="h2>h0"),
        ev_change(4.1, "GOOD"),
        ev_change(4.3, "GOOD", flow="h2>h0"),
    ]
    cost = faults.cost(run, run.faults[0])
    assert cost.restored_s == pytest.approx(0.3)
    assert cost.evs_not_restored == 0


def test_an_ev_whose_loss_was_seen_only_after_the_fault_counts_too() -> None:
    run = handmade.run(faults=(fault(3, 3.02),))
    run.events += [ev_change(3.05, "ASSUMED_BAD"), ev_change(3.2, "GOOD")]
    assert faults.cost(run, run.faults[0]).restored_s == pytest.approx(0.18)


def test_an_ev_that_was_bad_and_back_before_the_fault_is_not_the_faults() -> None:
    run = handmade.run(faults=(fault(3, 4),))
    run.events += [ev_change(2, "ASSUMED_BAD"), ev_change(2.2, "GOOD")]
    cost = faults.cost(run, run.faults[0])
    assert (cost.restored_s, cost.evs_not_restored) == (None, 0)


def test_an_ev_that_never_came_back_is_counted() -> None:
    run = handmade.run(faults=(fault(3, 4),))
    run.events += [ev_change(3.02, "ASSUMED_BAD"), ev_change(3.03, "ASSUMED_BAD", flow="h2>h0"), ev_change(4.1, "GOOD")]
    assert faults.cost(run, run.faults[0]).evs_not_restored == 1


def test_an_ev_that_another_fault_still_holds_down_is_that_faults() -> None:
    run = handmade.run(faults=(fault(3, 4), fault(3.5, 6, NIC_LINK, number=2)))
    run.events += [ev_change(3.02, "ASSUMED_BAD"), ev_change(6.2, "GOOD")]
    first, second = faults.costs(run)
    assert first.restored_s is None
    assert first.evs_not_restored == 0
    assert second.restored_s == pytest.approx(0.2)


def test_a_plane_given_up_with_the_nic_port_is_restored_when_both_ends_took_it_back() -> None:
    run = handmade.run(faults=(fault(3, 4, NIC_LINK),))
    run.events += [
        port_change(3.002, False),
        port_change(3.010, False, host="h2", end="peer"),
        port_change(4.002, True),
        port_change(4.012, True, host="h2", end="peer"),
    ]
    cost = faults.cost(run, run.faults[0])
    assert cost.restored_s == pytest.approx(0.012)
    assert cost.evs_not_restored == 0


def test_a_plane_that_stays_given_up_is_counted_and_a_foreign_one_is_not() -> None:
    run = handmade.run(faults=(fault(3, 4, NIC_LINK),))
    run.events += [port_change(3.002, False), port_change(3.002, False, host="h1", flow="h1>h3")]
    assert faults.cost(run, run.faults[0]).evs_not_restored == 1


def test_a_fault_that_lasts_to_the_end_has_nothing_to_restore() -> None:
    run = handmade.run(faults=(fault(3, None),))
    run.events += [ev_change(3.02, "ASSUMED_BAD")]
    cost = faults.cost(run, run.faults[0])
    assert (cost.restored_s, cost.evs_not_restored) == (None, 0)


# --- dip


def dipping(since_s: float, until_s: float, factor: float) -> handmade.Rate:
    return lambda flow, plane, t_s: PLANE_BPS * (factor if since_s <= t_s < until_s else 1)


def test_the_dip_is_the_worst_bin_against_the_time_before() -> None:
    run = handmade.run(rate=dipping(3.1, 3.3, 0.5), faults=(fault(3.2, 4),))
    assert faults.cost(run, run.faults[0]).dip_fraction == pytest.approx(0.5, abs=0.01)


def test_no_dip_when_goodput_stays() -> None:
    run = handmade.run(faults=(fault(3, 4),))
    cost = faults.cost(run, run.faults[0])
    assert cost.dip_fraction == pytest.approx(0, abs=0.01)
    assert cost.dip_bins == 10


def test_the_dip_looks_at_affected_flows_only() -> None:
    run = handmade.run(rate=lambda flow, plane, t_s: 0 if flow == "h1>h3" and t_s > 3 else PLANE_BPS)
    assert faults.cost(run, fault(3, 4, NIC_LINK)).dip_fraction == pytest.approx(0, abs=0.01)


def test_the_dip_of_a_later_flap_is_measured_against_a_time_without_faults() -> None:
    run = handmade.run(rate=dipping(3, 4.2, 0.6), faults=(fault(3, 3.4), fault(3.6, 4, number=2)))
    assert faults.cost(run, run.faults[1]).dip_fraction == pytest.approx(0.4, abs=0.01)


def test_a_fault_in_the_warm_up_has_nothing_to_be_compared_with() -> None:
    run = handmade.run(faults=(fault(0.5, 0.7),))
    assert faults.cost(run, run.faults[0]).dip_fraction is None


def test_a_link_that_no_flow_uses_has_no_dip() -> None:
    run = handmade.run(faults=(fault(3, 4, "h1:p0t0-0"),))
    run.flows = [flow for flow in run.flows if "h1" not in flow.name]
    assert faults.cost(run, run.faults[0]).dip_fraction is None


def test_paths_are_those_of_the_model() -> None:
    run = handmade.run()
    assert LINK in run.path_of("h2>h0", handmade.EV)
    assert run.path_of("h0>h2", handmade.EV) == {NIC_LINK, LINK, "p1t0-1:p1t1-2", "h2:p1t0-1"}


def test_a_plane_given_up_for_the_own_port_and_taken_back_for_the_peers_is_restored() -> None:
    """Both ends' ports were down: a queue pair goes back to the plane when it hears of the later one."""
    run = handmade.run(faults=(fault(3, 4, NIC_LINK),))
    run.events += [port_change(3.002, False), port_change(4.012, True, end="peer")]
    cost = faults.cost(run, run.faults[0])
    assert cost.evs_not_restored == 0
    assert cost.restored_s == pytest.approx(0.012)


def test_a_plane_given_up_and_taken_back_at_one_moment_is_restored() -> None:
    """Two reports of a peer that come together, the older one first."""
    run = handmade.run(faults=(fault(3, 4, NIC_LINK),))
    run.events += [port_change(4.004, False, host="h2", end="peer"), port_change(4.004, True, host="h2", end="peer")]
    cost = faults.cost(run, run.faults[0])
    assert (cost.evs_not_restored, cost.restored_s) == (0, pytest.approx(0.004))
