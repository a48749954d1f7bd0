"""The oracle against what can be worked out by hand, and against properties that any answer must have."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from labs import LINE_BPS, lab, small_labs

from testbed.topology.capacity import Carried, carried
from testbed.topology.clos import Clos
from testbed.topology.errors import InputError
from testbed.topology.sizes import payload_share

Case = tuple[Clos, dict[tuple[str, str], float], dict[str, float]]  # a lab, what is offered, what is damaged

HOST_BPS = 4 * LINE_BPS  # all planes of a host of the demo


def across(fabric: Clos, offered: float = inf) -> dict[tuple[str, str], float]:
    """Every host to the host at the same place in the next rack."""
    hosts, rack = fabric.spec.hosts, fabric.spec.hosts_per_t0
    return {(f"h{host}", f"h{(host + rack) % hosts}"): offered for host in range(hosts)}


def shares(got: Carried) -> dict[str, float]:
    """By source host: what it got of its line rate."""
    return {src: rate / HOST_BPS for (src, _), rate in got.flows.items()}


def all_of(value: float) -> dict[str, float]:
    return {f"h{host}": pytest.approx(value) for host in range(8)}


def test_a_healthy_clos_carries_every_host_at_line_rate() -> None:
    got = carried(lab(), across(lab()))
    assert shares(got) == all_of(1.0)
    assert set(got.planes.values()) == {(0, 1, 2, 3)}


def test_a_dead_t0_t1_link_leaves_three_quarters_to_the_flows_from_and_to_that_t0() -> None:
    assert shares(carried(lab(), across(lab()), {"p0t0-0:p0t1-2": 0})) == all_of(0.75)


def test_flows_of_other_racks_keep_their_rate() -> None:
    fabric = lab(t0_groups=4)
    got = shares(carried(fabric, across(fabric), {"p1t0-0:p1t1-3": 0}))
    slow = {f"h{host}" for host in range(16) if fabric.group_of(host) in (0, 3)}  # rack 3 sends to rack 0
    assert {host for host, share in got.items() if share == pytest.approx(0.75)} == slow
    assert all(share == pytest.approx(1) for host, share in got.items() if host not in slow)


def test_seventy_percent_of_the_load_does_not_notice_it() -> None:
    got = carried(lab(), across(lab(), 0.7 * HOST_BPS), {"p0t0-0:p0t1-2": 0})
    assert shares(got) == all_of(0.7)


def test_a_dead_nic_link_takes_a_plane_from_that_hosts_flows_only() -> None:
    got = carried(lab(), across(lab()), {"h0:p0t0-0": 0})
    assert shares(got) == all_of(1.0) | {"h0": pytest.approx(0.75), "h4": pytest.approx(0.75)}
    assert got.planes["h0", "h4"] == (1, 2, 3)


def test_one_direction_of_a_link_slows_only_what_goes_that_way() -> None:
    got = shares(carried(lab(), across(lab()), {"p0t0-0>p0t1-2": 0}))
    assert [got[f"h{host}"] for host in range(8)] == pytest.approx([0.75] * 4 + [1.0] * 4)
    assert carried(lab(), across(lab()), {"p0t1-2>p0t0-0": 0}).flows["h4", "h0"] == pytest.approx(0.75 * HOST_BPS)


def test_a_link_at_half_its_rate_costs_half_of_what_its_death_does() -> None:
    assert shares(carried(lab(), across(lab()), {"p0t0-0:p0t1-2": 0.5})) == all_of(0.875)


def test_a_dead_t1_takes_a_link_from_every_t0_and_a_dead_t0_a_plane() -> None:
    assert shares(carried(lab(), across(lab()), {"p2t1-0": 0})) == all_of(0.75)
    assert shares(carried(lab(), across(lab()), {"p2t0-1": 0})) == all_of(0.75)


def test_t1s_count_only_where_both_of_their_links_live() -> None:
    got = carried(lab(), across(lab()), {"p0t0-0:p0t1-0": 0, "p0t0-1:p0t1-1": 0})
    assert shares(got) == all_of(0.5)
    assert shares(carried(lab(), across(lab()), {"p0t0-0:p0t1-0": 0, "p0t0-1:p0t1-0": 0})) == all_of(0.75)


def test_a_plane_without_any_way_left_is_given_up_and_the_others_stay_full() -> None:
    damage = {f"p0t0-0:p0t1-{t1}": 0.0 for t1 in range(4)}
    assert shares(carried(lab(), across(lab()), damage)) == all_of(0.75)


def test_a_host_without_any_plane_gets_nothing() -> None:
    got = carried(lab(), across(lab()), {"h0": 0})
    assert got.flows["h0", "h4"] == got.flows["h4", "h0"] == 0 and got.planes["h0", "h4"] == ()
    assert got.flows["h1", "h5"] == pytest.approx(HOST_BPS)


def test_other_flows_make_room_on_the_t1s_that_a_pair_cannot_use() -> None:
    # Racks 1 and 2 send to rack 0, half each. Rack 1 cannot use T1 0, so rack 2 has to use it more than the others.
    fabric = lab(planes=1, t0_groups=3, hosts_per_t0=4)
    flows = {(f"h{4 + host}", f"h{host}"): inf for host in (0, 1)} | {
        (f"h{8 + host}", f"h{host}"): inf for host in (2, 3)
    }
    assert carried(fabric, flows, {"p0t0-1:p0t1-0": 0}).flows == pytest.approx(dict.fromkeys(flows, LINE_BPS))


def test_incast_shares_the_receivers_line() -> None:
    flows = {(f"h{host}", "h0"): inf for host in range(1, 8)}
    assert carried(lab(), flows).flows == pytest.approx(dict.fromkeys(flows, HOST_BPS / 7))


def test_what_a_small_flow_leaves_goes_to_the_others() -> None:
    flows = {("h0", "h4"): 0.1 * HOST_BPS, ("h0", "h5"): inf, ("h0", "h6"): inf}
    assert shares_by_destination(carried(lab(), flows)) == pytest.approx({"h4": 0.1, "h5": 0.45, "h6": 0.45})


def shares_by_destination(got: Carried) -> dict[str, float]:
    return {dst: rate / HOST_BPS for (_, dst), rate in got.flows.items()}


def test_an_oversubscribed_fabric_limits_a_rack_to_its_uplinks() -> None:
    fabric = lab(t1s_per_plane=2)
    assert shares(carried(fabric, across(fabric))) == all_of(0.5)
    inside = {("h0", "h1"): inf, ("h2", "h6"): inf}
    assert carried(fabric, inside).flows == pytest.approx(dict.fromkeys(inside, HOST_BPS))


def test_payload_is_the_payload_share_of_the_wire_rate() -> None:
    got = carried(lab(), across(lab()))
    assert got.total_payload_bps == pytest.approx(8 * HOST_BPS * payload_share())
    assert got.payload_bps["h0", "h4"] == pytest.approx(HOST_BPS * 4096 / 4242)


@pytest.mark.parametrize(
    ("flows", "damage", "error"),
    [
        ({("h0", "h9"): inf}, {}, InputError),
        ({("h0", "h4"): inf}, {"p0t0-0:p0t1-9": 0}, InputError),
        ({("h0", "h4"): inf}, {"p0t0-0>p0t1-9": 0}, InputError),
        ({("h0", "h4"): inf}, {"p9t0-0": 0}, InputError),
        ({("h0", "h4"): inf}, {"p0t0-0": 1.5}, ValueError),
        ({("h0", "h0"): inf}, {}, ValueError),
        ({("h0", "h4"): -1.0}, {}, ValueError),
        ({("h0", "h4"): float("nan")}, {}, ValueError),
    ],
)
def test_what_makes_no_sense_is_refused(
    flows: dict[tuple[str, str], float], damage: dict[str, float], error: type[Exception]
) -> None:
    with pytest.raises(error):
        carried(lab(), flows, damage)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A small lab with flows between any hosts and damage to any links."""
    fabric = draw(small_labs(fewest_racks=2))
    hosts = [host.name for host in fabric.hosts]
    ends = st.tuples(st.sampled_from(hosts), st.sampled_from(hosts)).filter(lambda pair: pair[0] != pair[1])
    flows = draw(st.dictionaries(ends, st.sampled_from([inf, 0.3 * LINE_BPS, LINE_BPS]), min_size=1, max_size=8))
    links = st.sampled_from([link.name for link in fabric.links.values() if link.tier == "t0-t1"])
    return fabric, flows, draw(st.dictionaries(links, st.sampled_from([0.0, 0.5]), max_size=5))


@given(cases())
def test_no_flow_gets_more_than_it_offers_and_no_nic_link_more_than_its_rate(case: Case) -> None:
    fabric, flows, damage = case
    got = carried(fabric, flows, damage)
    assert set(got.flows) == set(flows)
    assert all(0 <= got.flows[key] <= offered for key, offered in flows.items())
    for host in fabric.hosts:
        for end in (0, 1):
            for plane in range(fabric.spec.planes):
                load = sum(
                    rate / len(got.planes[key])
                    for key, rate in got.flows.items()
                    if key[end] == host.name and plane in got.planes[key]
                )
                assert load <= LINE_BPS * (1 + 1e-6)


@given(cases())
def test_order_of_flows_and_damage_does_not_matter(case: Case) -> None:
    fabric, flows, damage = case
    turned = carried(fabric, dict(reversed(flows.items())), dict(reversed(damage.items())))
    assert turned.flows == pytest.approx(carried(fabric, flows, damage).flows)


@given(cases())
def test_planes_that_change_places_change_nothing(case: Case) -> None:
    fabric, flows, damage = case
    last = fabric.spec.planes - 1
    mirrored = {
        ":".join(f"p{last - int(end[1])}{end[2:]}" for end in name.split(":")): left for name, left in damage.items()
    }
    assert carried(fabric, flows, mirrored).flows == pytest.approx(carried(fabric, flows, damage).flows)


@given(cases(), st.data())
def test_the_slowest_flow_never_gains_from_more_damage_inside_a_plane(case: Case, data: st.DataObject) -> None:
    # The sum may gain: a flow that is cut back leaves its room to several others. Nor is it true of a link whose
    # death ends a plane, because the planes that are left need not wait for it: here the plane lives on.
    fabric, flows, damage = case
    victim = data.draw(st.sampled_from([link.name for link in fabric.links.values() if link.tier == "t0-t1"]))
    before, after = carried(fabric, flows, damage), carried(fabric, flows, {**damage, victim: 0.0})
    assume(before.planes == after.planes)
    assert min(after.flows.values()) <= min(before.flows.values()) * (1 + 1e-6)


@given(small_labs(fewest_racks=2), st.data())
def test_more_dead_links_never_carry_more_of_a_permutation(fabric: Clos, data: st.DataObject) -> None:
    # One flow per host each way, from a healthy fabric: nobody shares a NIC link, and all uplinks of a rack are alike.
    links = [link.name for link in fabric.links.values() if link.tier == "t0-t1" and link.plane == 0]
    dead = data.draw(st.lists(st.sampled_from(links), unique=True, min_size=1, max_size=4))
    totals = [carried(fabric, across(fabric), dict.fromkeys(dead[:count], 0.0)) for count in range(len(dead) + 1)]
    assume(all(got.planes == totals[0].planes for got in totals))
    for more, fewer in zip(totals[1:], totals, strict=False):
        assert more.total_bps <= fewer.total_bps * (1 + 1e-6)


@given(small_labs(fewest_racks=2, most_racks=2), st.data())
def test_two_racks_with_dead_uplinks_follow_the_closed_form(fabric: Clos, data: st.DataObject) -> None:
    spec = fabric.spec
    dead = data.draw(st.integers(0, spec.t1s_per_plane - 1))
    damage = {f"p0t0-0:p0t1-{t1}": 0.0 for t1 in range(dead)}
    share = min(1.0, (spec.t1s_per_plane - dead) / spec.hosts_per_t0)
    got = carried(fabric, across(fabric), damage)
    assert got.total_bps == pytest.approx(spec.hosts * spec.planes * LINE_BPS * share)


def test_a_wide_lab_with_scattered_damage_is_answered_too() -> None:
    fabric = lab(planes=8, t0_groups=8, hosts_per_t0=8, t1s_per_plane=8)
    damage = {f"p{plane}t0-{plane}:p{plane}t1-{(3 * plane) % 8}": 0.0 for plane in range(8)}
    got = carried(fabric, across(fabric), damage)
    assert {round(rate / (8 * LINE_BPS), 6) for rate in got.flows.values()} == {0.875}
