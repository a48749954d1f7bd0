"""The formula of what probing costs, held against probers at several sizes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from agents.clustermapper.cost import (
    CPU_NS_PER_BEAT,
    CPU_NS_PER_PROBE,
    MOST_OF_A_LINK,
    MOST_OF_THE_CPU,
    PROBE_BYTES,
    Probed,
)
from agents.clustermapper.element import Element
from tests.unit.clustermapper.rack import INTERVAL_NS, Fabric, Shape, crossed

SIZES = [(1, 1, 2, 5), (2, 2, 2, 2), (4, 2, 4, 4), (3, 2, 6, 4)]
INTERVALS = 20


def probed(planes: int, t0s: int, hosts: int, t1s: int, **rates: int) -> Probed:
    rates = {"host_bps": 20_000_000, "fabric_bps": 20_000_000, **rates}
    return Probed(planes=planes, hosts=t0s * hosts, hosts_per_t0=hosts, t1s_per_plane=t1s, **rates)


@pytest.mark.parametrize("size", SIZES)
def test_the_formula_says_what_is_sent(size: tuple[int, int, int, int], rng: Random) -> None:
    planes, t0s, hosts, t1s = size
    shape = Shape(planes=planes, t0_groups=t0s, hosts_per_t0=hosts, t1s_per_plane=t1s)
    fabric = Fabric(rng, shape)
    fabric.run(INTERVALS)
    cost = probed(*size).cost(INTERVAL_NS)
    seconds = INTERVALS * INTERVAL_NS / 1e9
    assert len(fabric.sent) / seconds == pytest.approx(cost.all_packets_per_s, rel=0.1)
    assert len(fabric.sent) / seconds / (t0s * hosts) == pytest.approx(cost.host_packets_per_s, rel=0.1)
    on: Counter[Element] = Counter()
    for _, host, _, outer in fabric.sent:
        on.update(set(crossed(shape, host, outer)))
    busiest = {kind: max(count for link, count in on.items() if link.kind == kind) for kind in ("nic-t0", "t0-t1")}
    assert busiest["nic-t0"] / seconds == pytest.approx(cost.nic_link_packets_per_s, rel=0.1)
    assert busiest["t0-t1"] / seconds == pytest.approx(cost.fabric_link_packets_per_s, rel=0.1)


def test_a_probe_has_the_bytes_that_the_formula_says(rng: Random) -> None:
    prober = Fabric(rng).hosts[0]
    prober.handle_timer(prober.next_timer() or 0)
    assert {14 + sum(len(part) for part in buffers) for _, buffers in prober.probes()} == {PROBE_BYTES}


def test_the_default_interval_keeps_to_its_limits_and_to_the_papers() -> None:
    slow = probed(4, 2, 4, 4, host_bps=1_000_000, fabric_bps=1_000_000)
    interval_ns = slow.shortest_interval_ns(cores=1000)
    assert slow.cost(interval_ns).nic_link_share == pytest.approx(MOST_OF_A_LINK, rel=0.01)
    crowded = probed(8, 8, 8, 8, host_bps=10**9, fabric_bps=10**9)
    interval_ns = crowded.shortest_interval_ns(cores=2)
    busy_s = crowded.cost(interval_ns).all_packets_per_s * (CPU_NS_PER_PROBE + CPU_NS_PER_BEAT / 8) / 1e9
    assert busy_s == pytest.approx(2 * MOST_OF_THE_CPU, rel=0.01)
    assert probed(1, 1, 1, 1, host_bps=10**11, fabric_bps=10**11).shortest_interval_ns(1000) == 1_000_000
