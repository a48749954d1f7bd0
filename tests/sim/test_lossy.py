"""Loss, reordering, duplication and flipped bits on every link: all bytes arrive, each exactly once in memory."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testbed.sim.link import CableSpec
from testbed.sim.pair import MS, Pair
from testbed.topology.labspec import Queue

SIM = settings(derandomize=True, print_blob=True, deadline=None, max_examples=200)

# Per link; a packet crosses four of them, three of which (all but the NIC's own) have these faults.
networks = st.fixed_dictionaries(
    {
        "loss": st.sampled_from([0, 0.001, 0.01, 0.05]),
        "cable": st.builds(
            CableSpec,
            corrupt=st.sampled_from([0, 0.01]),
            duplicate=st.sampled_from([0, 0.01, 0.2]),
            reorder=st.sampled_from([0, 0.01, 0.2]),
            reorder_ns=st.sampled_from([1_000, 5_000, 50_000]),
        ),
        "queue": st.builds(Queue, size=st.sampled_from(["40 KB", "1 MB"]), trimming=st.booleans(), ecn=st.booleans()),
    }
)
ROUGH = {"loss": 0.1, "cable": CableSpec(reorder=0.3, duplicate=0.3, corrupt=0.05)}
sizes = st.lists(st.integers(1, 60_000) | st.sampled_from([1, 4096, 8192]), min_size=1, max_size=8)
start_psns = st.integers(0, (1 << 24) - 1) | st.integers((1 << 24) - 40, (1 << 24) - 1)
shapes = st.fixed_dictionaries({"planes": st.integers(1, 8), "t1s": st.integers(1, 4)})


@SIM
@given(seed=st.integers(0, 1 << 32), network=networks, sizes=sizes, start_psn=start_psns, shape=shapes)
@example(seed=1, network=ROUGH, sizes=[100_000], start_psn=(1 << 24) - 3, shape={"planes": 2, "t1s": 2})
def test_all_bytes_arrive_once(
    seed: int, network: dict[str, Any], sizes: list[int], start_psn: int, shape: dict[str, Any]
) -> None:
    Pair(seed=seed, **network, start_psn=start_psn, **shape).transfer(sizes)


@settings(SIM, max_examples=50)
@given(seed=st.integers(0, 1 << 32), network=networks, there=sizes, back=sizes)
def test_all_bytes_arrive_once_both_ways(seed: int, network: dict[str, Any], there: list[int], back: list[int]) -> None:
    pair = Pair(seed=seed, **network)
    pair.transfers({pair.a: there, pair.b: back})


@pytest.mark.full
@settings(SIM, max_examples=5_000)
@given(seed=st.integers(0, 1 << 32), network=networks, sizes=sizes, start_psn=start_psns, shape=shapes)
def test_all_bytes_arrive_once_many_times(
    seed: int, network: dict[str, Any], sizes: list[int], start_psn: int, shape: dict[str, Any]
) -> None:
    Pair(seed=seed, **network, start_psn=start_psn, **shape).transfer(sizes)


def test_retransmissions_are_about_as_many_as_losses(seed: int) -> None:
    """Loss alone, in order: what goes again is what was lost, give or take the acknowledgements lost on the way."""
    pair = Pair(seed=seed, planes=4, loss=0.002)
    pair.transfer([1 << 20] * 4)
    counters = pair.qp_a.counters
    assert counters.packets_retransmitted > 0
    assert counters.packets_retransmitted <= 2 * pair.network.fates()["lost"]


def test_a_flipped_bit_is_never_delivered(seed: int) -> None:
    pair = Pair(seed=seed, cable=CableSpec(corrupt=0.02))
    pair.transfer([1 << 19])
    assert pair.network.fates()["corrupted"] > 0
    assert pair.qp_a.counters.packets_retransmitted > 0


def test_lost_acknowledgements_do_not_stretch_the_timeout() -> None:
    """Two packets in flight, a quarter of all lost, either way: timeouts are the rule, and each one stays short."""
    pair = Pair(seed=4825, planes=1, t1s=3, loss=0.1, congestion="fixed", window_bytes=8192)
    pair.transfer([1 << 20], deadline_ns=100 * MS)
