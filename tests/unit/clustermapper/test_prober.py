"""When probes go out, which way, and what is made of their coming back."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from random import Random

import pytest

from agents.clustermapper.element import Element
from agents.clustermapper.settings import Settings
from agents.clustermapper.shares import deal
from agents.wire import dscp
from agents.wire.packet import parse
from tests.unit.clustermapper.rack import INTERVAL_NS, SHAPE, Fabric, Shape, crossed


@pytest.mark.parametrize(("hosts", "t1s"), [(1, 4), (4, 4), (3, 8), (8, 3), (5, 2), (64, 64)])
def test_a_share_for_each_host_and_a_host_for_each_t1(hosts: int, t1s: int) -> None:
    for plane in range(3):
        dealt = deal(range(100, 100 + hosts), t1s, plane)
        assert set(dealt) == set(range(100, 100 + hosts))
        assert {t1 for share in dealt.values() for t1 in share} == set(range(t1s))
        sizes = [len(share) for share in dealt.values()]
        assert min(sizes) >= 1 and max(sizes) - min(sizes) <= 1
    assert deal([], t1s) == {}


def test_every_link_is_probed_in_each_interval(rng: Random) -> None:
    fabric = Fabric(rng)
    fabric.run(10)
    times: Counter[Element] = Counter()
    for at, host, _, outer in fabric.sent:
        if at < 9 * INTERVAL_NS:
            times.update(dict.fromkeys(crossed(SHAPE, host, outer), 1))
    links = [element for element in times if element.kind in ("nic-t0", "t0-t1")]
    assert len(links) == 2 * 8 + 2 * 2 * 4
    assert all(8 <= times[link] <= 20 for link in links)


def test_no_link_gets_two_probes_at_once(rng: Random) -> None:
    shape = Shape(planes=2, t0_groups=1, hosts_per_t0=4, t1s_per_plane=8)
    fabric = Fabric(rng, shape)
    fabric.run(10)
    by_link: dict[Element, list[int]] = defaultdict(list)
    for at, host, _, outer in fabric.sent:
        for element in set(crossed(shape, host, outer)):
            by_link[element].append(at)
    for element, at in by_link.items():
        least = INTERVAL_NS // 3 if element.kind == "nic-t0" else INTERVAL_NS // 3 // 4
        if element.kind != "t0":
            assert min(later - earlier for earlier, later in pairwise(at)) >= least - 1


def test_t0_paths_go_out_first_in_an_interval(rng: Random) -> None:
    fabric = Fabric(rng)
    fabric.run(3)  # each host has a T0 path and a T1 path in each plane, so an interval has two beats
    early = [at % INTERVAL_NS < INTERVAL_NS // 2 for at, *_ in fabric.sent]
    assert early == [len(crossed(SHAPE, host, outer)) == 3 for _, host, _, outer in fabric.sent]


def test_a_probe_is_of_its_own_class_and_can_be_marked_as_data(rng: Random) -> None:
    fabric = Fabric(rng)
    prober = fabric.hosts[3]
    prober.handle_timer(prober.next_timer() or 0)
    for plane, buffers in prober.probes():
        packet = parse(b"".join(buffers))
        assert packet.dscp == dscp.SELF_PROBE and packet.ecn == dscp.ECT0 and packet.src == packet.dst
        assert packet.ev >> 29 == plane


def test_shares_are_dealt_anew_when_a_host_leaves(rng: Random) -> None:
    fabric = Fabric(rng)
    left = [host for host in range(4) if host != 1]
    for plane in range(2):
        for host, t1s in deal(left, 4, plane).items():
            fabric.hosts[host].share({plane: t1s}, fabric.now)
    fabric.hosts[1].configure(Settings(policy="off"), fabric.now)
    fabric.sent.clear()
    fabric.run(3)
    seen = {element for _, host, _, outer in fabric.sent for element in crossed(SHAPE, host, outer)}
    assert {Element("t0-t1", plane, 0, t1) for plane in range(2) for t1 in range(4)} <= seen
    assert Element("nic-t0", 0, 1) not in seen
    with pytest.raises(ValueError, match="no plane 0"):
        fabric.hosts[0].share({0: [4]}, fabric.now)


def test_late_is_not_lost(rng: Random) -> None:
    fabric = Fabric(rng)
    fabric.run(20)
    fabric.rtt_ns = lambda host, plane: 12 * INTERVAL_NS
    fabric.run(30)
    assert fabric.accused() == {}
    paths = [path for prober in fabric.hosts for path in prober.report(fabric.now).paths]
    assert all(path.late > 0 and path.lost_run == 0 and len(path.losses) <= 2 for path in paths)


def test_a_missed_beat_is_left_out(rng: Random) -> None:
    fabric = Fabric(rng)
    prober = fabric.hosts[0]
    due = prober.next_timer() or 0
    prober.handle_timer(due + 20 * INTERVAL_NS)
    assert len(prober.probes()) == SHAPE.planes
    assert due + 20 * INTERVAL_NS < (prober.next_timer() or 0) <= due + 21 * INTERVAL_NS


def test_probes_from_before_it_was_switched_off_are_no_strangers(rng: Random) -> None:
    fabric = Fabric(rng)
    fabric.run(1.4)
    for prober in fabric.hosts:
        prober.configure(Settings(), fabric.now)
    assert all(prober.next_timer() is None and not prober.report(fabric.now).paths for prober in fabric.hosts)
    fabric.run(1)


@pytest.mark.parametrize("wrong", [{"policy": "on"}, {"interval_ns": 0}, {"loss_bound": 0.0}, {"hold_intervals": 0}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Settings(**wrong)  # type: ignore[arg-type]
