"""The EV map replays what senders said of their EVs."""

import pytest

from agents.wire import ev as entropy
from testbed.measure import evmap, series
from testbed.topology import clos
from tests.unit.measure import handmade
from tests.unit.measure.handmade import ev_change, loss, ns, port_change


def row(run: handmade.Run, plane: int, t1: int) -> evmap.PathRow:
    rows = evmap.rows(run, series.bin_edges(ns(0), ns(4), 1_000_000_000))
    return next(row for row in rows if (row.plane, row.t1) == (plane, t1))


def test_every_path_has_a_row_in_order() -> None:
    rows = evmap.rows(handmade.run(), series.bin_edges(ns(0), ns(4)))
    assert [(row.plane, row.t1) for row in rows] == [(plane, t1) for plane in range(4) for t1 in range(4)]


def test_a_path_is_out_of_use_while_a_flow_has_its_ev_bad() -> None:
    run = handmade.run()
    run.events += [ev_change(1.5, "ASSUMED_BAD"), ev_change(3, "GOOD")]
    assert row(run, 1, 2).out_of_use == pytest.approx([0, 0.125, 0.25, 0])  # one of four flows
    assert row(run, 1, 2).out_of_use_share == pytest.approx(0.25 * 1.5 / 4)
    assert row(run, 1, 3).out_of_use_share == 0


def test_an_ev_that_stays_bad_is_out_of_use_to_the_end() -> None:
    run = handmade.run()
    run.events += [ev_change(2, "ASSUMED_BAD", flow=flow.name) for flow in run.flows]
    assert row(run, 1, 2).out_of_use == pytest.approx([0, 0, 1, 1])


def test_a_plane_given_up_by_a_sender_takes_all_its_paths_and_the_receivers_view_does_not_count_twice() -> None:
    run = handmade.run()
    run.events += [
        port_change(1, False),
        port_change(1.1, False, host="h2", end="peer"),
        port_change(2, True),
        port_change(2.1, True, host="h2", end="peer"),
    ]
    assert [row(run, 1, t1).out_of_use for t1 in range(4)] == [pytest.approx([0, 0.25, 0, 0])] * 4
    assert row(run, 0, 0).out_of_use_share == 0


def test_losses_are_counted_on_their_path() -> None:
    run = handmade.run()
    run.events += [loss(1), loss(2, flow="h1>h3"), loss(2, ev=handmade.OTHER_EV)]
    assert (row(run, 1, 2).packets_lost, row(run, 1, 3).packets_lost, row(run, 0, 2).packets_lost) == (2, 1, 0)


def test_where_the_fabric_hashes_an_ev_names_no_path_and_may_mean_any() -> None:
    run = handmade.run()
    run.events += [loss(1, ev=entropy.make(1, 200)), ev_change(1, "ASSUMED_BAD", ev=entropy.make(1, 200))]
    run.clos = clos.build(run.clos.spec.model_copy(update={"routing": "ecmp"}))
    assert evmap.rows(run, series.bin_edges(ns(0), ns(4))) == []
    crossed = run.path_of("h0>h2", entropy.make(1, 200))
    assert {link for link in crossed if "t1" in link} == {
        f"p1t0-{rack}:p1t1-{t1}" for rack in range(2) for t1 in range(4)
    }
    assert {link for link in crossed if "t1" not in link} == {"h0:p1t0-0", "h2:p1t0-1"}
