"""testbed.measure.view: what an audience is told, from records fed in as they come."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.measure import view
from testbed.measure.record import Fault, FaultActed, Flow, Received
from testbed.measure.view import View
from tests.unit.measure import handmade
from tests.unit.measure.handmade import LINK, PLANE_BPS, ev_change, fault, loss, ns, port_change

FLOW = Flow("h0", "h2", 0.0)


def viewing(*flows: Flow) -> View:
    made = View(handmade.run().clos, ns(0))
    made.set_flows(flows or (FLOW,))
    return made


def feed(seen: View, from_s: float, until_s: float, rate_bps: float = PLANE_BPS, already: int = 0) -> int:
    """Samples of FLOW every 50 ms; the bytes per plane at the end."""
    steps = round((until_s - from_s) / 0.05)
    for step in range(steps + 1):
        now = already + round(step * 0.05 * rate_bps / 8)
        seen.received(FLOW.name, Received(ns(from_s + step * 0.05), (now,) * 4))
    return now


def goodput(seen: View, at_s: float) -> float:
    return float(seen.tick(ns(at_s))["flows"][FLOW.name]) * 1000


def test_goodput_is_that_of_the_last_samples_and_ends_with_them() -> None:
    seen = viewing()
    already = feed(seen, 0, 2)
    assert goodput(seen, 2.05) == pytest.approx(4 * PLANE_BPS, rel=0.01)
    feed(seen, 2.05, 3, PLANE_BPS / 2, already)
    assert goodput(seen, 3) == pytest.approx(2 * PLANE_BPS, rel=0.01)
    assert goodput(seen, 3 + view.SILENCE_NS / 1e9 + 0.1) == 0


def test_a_new_run_of_the_same_flow_counts_from_its_own_beginning() -> None:
    seen = viewing()
    feed(seen, 0, 2)
    feed(seen, 5, 6)
    assert goodput(seen, 6) == pytest.approx(4 * PLANE_BPS, rel=0.01)


def test_flows_that_went_are_forgotten_and_others_are_not() -> None:
    other = Flow("h1", "h3", 0.0)
    seen = viewing(FLOW, other)
    feed(seen, 0, 1)
    for flow in (FLOW, other):
        seen.event(ev_change(1, "ASSUMED_BAD", flow=flow.name))
    assert seen.tick(ns(1))["paths"].keys() == {FLOW.name, other.name}
    seen.set_flows([other])
    tick = seen.tick(ns(1.1))
    assert tick["flows"] == {} and tick["paths"].keys() == {other.name}


def test_paths_out_of_use_are_retired_evs_and_planes_that_the_sender_gave_up() -> None:
    seen = viewing()
    seen.event(ev_change(1, "ASSUMED_BAD"))
    seen.event(port_change(1, up=False))
    seen.event(port_change(1, up=False, host="h2", flow="h0>h2"))  # the receiver's own account
    paths = seen.tick(ns(1))["paths"][FLOW.name]
    assert [1, 2, "ASSUMED_BAD"] in paths
    assert [cell[:2] for cell in paths if cell[2] == "PLANE_DOWN"] == [[1, t1] for t1 in range(4)]
    seen.event(ev_change(2, "GOOD"))
    seen.event(port_change(2, up=True))
    assert seen.tick(ns(2))["paths"] == {}


def test_what_belongs_to_different_causes_is_told_in_different_lines() -> None:
    seen = viewing()
    for at_s in (1.0, 1.1, 5.0):
        seen.event(loss(at_s, after_s=0))
    told = [(message["t"], message["text"]) for message in seen.happened()]
    assert [t for t, _ in told] == [1100, 5000]
    assert told[0][1].startswith("2 packets lost") and told[1][1].startswith("1 packet lost")
    assert seen.happened() == []


def in_force(messages: list[dict[str, Any]]) -> list[str]:
    (message,) = messages
    return [one["target"] for one in message["active"]]


def test_faults_are_told_when_one_comes_or_goes_and_judged_when_they_have_settled() -> None:
    seen = viewing()
    assert in_force(seen.faults([], ns(0))) == []
    seen.tick(ns(0))
    assert seen.faults([], ns(1)) == []
    begun = fault(3, None)
    seen.event(FaultActed(ns(3), 1, "link-down", LINK, "near", True, ns(3)))
    seen.event(loss(3.0))
    seen.event(loss(3.04))
    seen.happened()
    assert in_force(seen.faults([begun], ns(3.1))) == [LINK]
    assert seen.judged(ns(4), 0) == []
    (verdict,) = seen.judged(ns(4.6), 0)
    assert verdict["text"] == f"link-down {LINK}: rerouted in 40 ms, 2 packets lost, 0 bytes wrong"
    assert seen.judged(ns(9), 0) == []
    assert in_force(seen.faults([fault(3, 10)], ns(10))) == []
    (verdict,) = seen.judged(ns(12), 7)
    assert verdict["text"] == f"link-down {LINK} is over, 7 bytes wrong"


def test_a_fault_that_was_over_before_anybody_looked_is_not_judged() -> None:
    seen = viewing()
    seen.faults([fault(3, 4)], ns(5))
    assert seen.judged(ns(9), 0) == []


def test_memory_does_not_grow_with_time() -> None:
    seen = viewing()
    already = 0
    for minute in range(6):
        already = feed(seen, 60 * minute, 60 * minute + 59, already=already)
        for second in range(60):
            seen.event(loss(60 * minute + second))
            seen.happened()
            seen.tick(ns(60 * minute + second))
    kept_s = view.MEMORY_NS / 1e9 + 60
    assert len(seen.run.events) <= kept_s
    assert len(seen.run.received[FLOW.name]) <= kept_s * 20


def test_an_endless_row_of_faults_is_shaded_by_its_latest_ones() -> None:
    many = [Fault(n, "link-down", LINK, "near", ns(n / 100), ns(n / 100), ns(n / 100), ns(n / 100)) for n in range(999)]
    (message,) = viewing().faults(many, ns(10))
    assert len(message["shades"]) == view.MOST_SHADES
    assert message["shades"][-1] == [9980, 9980]
