"""Settings of a port: what was set is read back, what makes no sense is refused, and a change is seen by the lab."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from testbed.fabric import observe
from testbed.topology.port_settings import PortSettings
from tests.kernel.port_bench import PortBench

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]

GOLDEN = PortSettings(
    device="h0",
    limit_bytes=2_097_152,
    control_extra_bytes=262_144,
    rate_bps=20_000_000,
    burst_ns=3_531_200,
    trim_at_bytes=262_144,
    kmin_bytes=16_384,
    kmax_bytes=65_536,
    pmax=0.25,
    trimming=True,
    ecn=True,
    last_hop=True,
    loss=0.001,
    match_kind="ev",
    match_value=0xE3E0_C001,
    match_loss=0.2,
    black_hole="data",
    corrupt=0.3,
    corrupt_unseen=True,
    watch_evs=True,
    virtual_queue=True,
)


@pytest.fixture(scope="module")
def bench() -> Iterator[PortBench]:
    with PortBench(hosts=1) as made:
        yield made


def drawn(rng: random.Random) -> PortSettings:
    low, high = sorted(rng.randrange(1 << 31) for _ in range(2))
    return PortSettings(
        device="h0",
        limit_bytes=rng.randrange(1 << 31),
        control_extra_bytes=rng.randrange(1 << 31),
        rate_bps=8 * rng.randrange(10**10),
        burst_ns=rng.randrange(10**10),
        trim_at_bytes=rng.randrange(1 << 31),
        kmin_bytes=low,
        kmax_bytes=high,
        pmax=round(rng.random(), 9),
        loss=round(rng.random(), 9),
        match_kind=rng.choice(["usid", "ev"]),
        match_value=rng.randrange(1 << 32),
        match_loss=round(rng.random() ** 8, 9),
        black_hole=rng.choice(["none", "data", "all"]),
        **{name: rng.random() < 0.5 for name in ("trimming", "ecn", "last_hop", "watch_evs", "virtual_queue")},
    )


def test_what_is_set_is_read_back(bench: PortBench, rng: random.Random) -> None:
    port = bench.port("p0t0-0", "h0")
    neighbour = bench.port("h0", "eth0")
    before = bench.port_map.settings(neighbour.ifindex)
    for wanted in (GOLDEN, *(drawn(rng) for _ in range(200)), replace(GOLDEN, loss=0.0, pmax=1.0)):
        bench.port_map.set(port.ifindex, wanted)
        assert bench.port_map.settings(port.ifindex, "h0") == wanted
    assert bench.port_map.settings(neighbour.ifindex) == before
    bench.ports.restore(port)
    assert observe.differences(bench.plan, bench.kernel, bench.port_map) == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rate_bps": -1}, "rate_bps is -1; it cannot be negative"),
        ({"loss": -0.1}, "loss is -0.1; it cannot be negative"),
        ({"loss": 1.01}, "loss is 1.01; a probability is 0 to 1"),
        ({"pmax": 2}, "pmax is 2; a probability is 0 to 1"),
        ({"kmin_bytes": 70_000}, "kmin_bytes 70000 is above kmax_bytes 65536"),
        ({"match_kind": "none"}, "match_loss needs match_kind: the loss of which packets?"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        replace(GOLDEN, **wrong)


def test_the_plan_is_in_the_map_and_a_change_is_a_difference(bench: PortBench) -> None:
    port = bench.port("p0t0-0", "h0")
    assert observe.differences(bench.plan, bench.kernel, bench.port_map) == []
    bench.ports.change(port, loss=0.01, black_hole="data")
    [found] = observe.differences(bench.plan, bench.kernel, bench.port_map)
    assert str(found) == "p0t0-0: ports: h0: loss is 0.01, planned 0.0; black_hole is data, planned none"
    bench.ports.restore(port, "loss", "black_hole")
    assert observe.differences(bench.plan, bench.kernel, bench.port_map) == []


def test_another_rate_is_htbs_and_comes_back_exactly(bench: PortBench) -> None:
    port = bench.port("p0t0-0", "h0")
    bench.ports.change(port, rate_bps=40_000_000)
    found = {(item.section, item.name) for item in observe.differences(bench.plan, bench.kernel, bench.port_map)}
    assert found == {
        ("ports", "h0"),
        ("classes", "h0 1:1"),
        ("classes", "h0 1:10"),
        ("classes", "h0 1:ff"),
    }
    bench.ports.restore(port)
    assert observe.differences(bench.plan, bench.kernel, bench.port_map) == []


def test_settings_lie_on_cache_lines_of_their_own() -> None:
    """Or every counted packet would take the line with the settings from the other CPUs."""
    from testbed.fabric import portmap

    assert ctypes.sizeof(portmap._Settings) % 64 == 0
    assert ctypes.sizeof(portmap._Port) % 64 == 0
