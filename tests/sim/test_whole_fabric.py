"""Nothing is broken: every packet crosses once, all planes and paths carry the same, and nothing is suspected."""

import pytest

from agents.transport import EvChanged, Event, PacketLost
from testbed.sim.link import CableSpec
from testbed.sim.pair import MS, US, Pair

PAYLOAD = 4096


def test_every_packet_goes_once_and_planes_and_paths_carry_the_same() -> None:
    pair = Pair(seed=1, planes=4, t1s=4)
    outcome = pair.transfer([64 * PAYLOAD] * 10)
    counters = pair.qp_a.counters
    assert (counters.packets_sent, counters.packets_retransmitted, counters.packets_lost) == (640, 0, 0)
    assert pair.qp_b.counters.packets_received == 640 and pair.qp_b.counters.packets_duplicate == 0
    assert pair.qp_b.counters.bytes_received == sum(pair.qp_b.bytes_received_by_port) == 640 * PAYLOAD
    assert not outcome.of_kind(PacketLost) and not outcome.of_kind(EvChanged)
    assert len(pair.network.crossed) == 16
    reverse_probes = pair.qp_b.counters.probes_sent
    assert max(pair.network.crossed.values()) - min(pair.network.crossed.values()) <= 1 + reverse_probes
    assert pair.network.fates().keys() == {"delivered"}


def test_the_links_are_kept_busy() -> None:
    """Four ports of 100 Gb/s: 64 MB at less than 70 % of that would show that the sender waits for something."""
    pair = Pair(seed=1, planes=4, t1s=4, congestion="fixed", window_bytes=1 << 20)
    outcome = pair.transfer([1 << 20] * 16)
    line_ns = (16 << 20) * 8 * 10**9 / (4 * 100 * 10**9)
    assert line_ns / outcome.took_ns > 0.7


@pytest.mark.parametrize("size", [1, 3, 4095, 4096, 4097, 3 * 4096 + 2])
def test_messages_of_any_size(size: int) -> None:
    Pair(seed=size).transfer([size, 1, size])


def test_many_small_messages_complete_in_order() -> None:
    Pair(seed=3).transfer([17] * 500)


def test_inside_a_rack_there_is_one_path_a_plane() -> None:
    pair = Pair(seed=1, planes=3, same_rack=True)
    pair.transfer([1 << 18])
    assert set(pair.network.crossed) == {(0, None), (1, None), (2, None)}


def test_both_ends_write_at_once() -> None:
    pair = Pair(seed=4)
    pair.transfers({pair.a: [1 << 17] * 4, pair.b: [1 << 16] * 7})


def test_transfers_follow_one_another_over_one_connection() -> None:
    pair = Pair(seed=5)
    for _ in range(5):
        pair.transfer([50_000])
        pair.wait(1 * MS)
        pair.transfer([50_000], sender=pair.b)


@pytest.mark.parametrize("before_wrap", [1, 2, 63, 64, 65, 200])
def test_the_psn_wraps(before_wrap: int) -> None:
    pair = Pair(seed=before_wrap, start_psn=(1 << 24) - before_wrap)
    pair.transfer([300 * PAYLOAD])
    assert pair.qp_a.counters.packets_sent == 300
    pair.transfer([5 * PAYLOAD])


def fields(event: Event) -> tuple[object, ...]:
    """All of an event; those of messages are equal only to themselves."""
    names = [name for kind in type(event).__mro__ for name in getattr(kind, "__slots__", ())]
    return type(event), *(getattr(event, name) for name in names)


def test_a_run_is_a_function_of_its_seed() -> None:
    def run(seed: int) -> tuple[list[tuple[object, ...]], int]:
        pair = Pair(seed=seed, loss=0.01, cable=CableSpec(reorder=0.02, duplicate=0.01))
        pair.after(20 * US, lambda: pair.kill_path(0, 1))
        pair.transfer([1 << 18])
        return [fields(event) for event in pair.log], pair.events.now

    assert run(8) == run(8)
    assert run(8) != run(9)
