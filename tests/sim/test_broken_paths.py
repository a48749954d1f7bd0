"""Paths that die without a word: the first losses retire them, the rest of the traffic never meets them again."""

import pytest

from agents.transport import EvChanged, PacketLost, QpFailed
from agents.wire import ev
from testbed.sim.pair import MS, US, Pair


def retired(pair: Pair) -> set[tuple[int, int]]:
    """The (plane, T1) whose EVs are ASSUMED_BAD at `a`, by its events."""
    bad: set[tuple[int, int]] = set()
    for event in pair.log:
        if isinstance(event, EvChanged):
            path = ev.plane_of(event.ev), ev.uplink_of(event.ev)
            (bad.add if event.new == "ASSUMED_BAD" else bad.discard)(path)
    return bad


def test_a_dead_path_is_retired_and_carries_nothing_more() -> None:
    pair = Pair(seed=1, planes=2, t1s=4)
    pair.after(30 * US, lambda: pair.kill_path(plane=1, t1=2))
    pair.transfer([1 << 21])
    assert retired(pair) == {(1, 2)}
    met_before = pair.network.crossed[1, 2]
    pair.transfer([1 << 21])
    # Probes go on; at 50 us apart a 1 MB transfer of 100 us sees a few.
    data_on_a_good_path = pair.network.crossed[1, 1] / 2
    assert pair.network.crossed[1, 2] - met_before < data_on_a_good_path / 4


def test_only_packets_of_the_dead_path_are_lost() -> None:
    pair = Pair(seed=2, planes=2, t1s=4)
    pair.kill_path(plane=0, t1=3)
    outcome = pair.transfer([1 << 21])
    lost = outcome.of_kind(PacketLost)
    assert lost and {(ev.plane_of(event.ev), ev.uplink_of(event.ev)) for event in lost} == {(0, 3)}
    assert len(lost) < 30, "what was in flight on one of eight paths, not more"


@pytest.mark.parametrize("towards", ["a", "b"])
def test_a_path_that_is_dead_one_way(towards: str) -> None:
    """Data lost and acknowledgements back, or data through and its acknowledgements lost: both have to end well."""
    pair = Pair(seed=10, planes=2, t1s=4)
    pair.after(20 * US, lambda: pair.kill_path(plane=1, t1=0, towards=getattr(pair, towards)))
    outcome = pair.transfer([1 << 21] * 4)
    lost = {(ev.plane_of(event.ev), ev.uplink_of(event.ev)) for event in outcome.of_kind(PacketLost)}
    assert lost <= {(1, 0)}, "no other path is blamed"
    line_ns = (8 << 20) * 8 / (2 * 100)
    assert outcome.took_ns < 1.5 * line_ns


def test_planes_stay_equally_loaded_when_paths_die_inside_one() -> None:
    pair = Pair(seed=3, planes=4, t1s=4)
    for t1 in range(3):
        pair.kill_path(plane=2, t1=t1)
    pair.transfer([1 << 20])
    before = list(pair.qp_b.bytes_received_by_port)
    pair.transfer([4 << 20])
    moved = [now - then for now, then in zip(pair.qp_b.bytes_received_by_port, before, strict=True)]
    assert max(moved) < 1.1 * min(moved)


def test_a_path_that_comes_back_is_used_again() -> None:
    pair = Pair(seed=4)
    pair.kill_path(plane=0, t1=0)
    pair.transfer([1 << 20])
    assert retired(pair) == {(0, 0)}
    pair.revive_path(plane=0, t1=0)
    pair.wait(1 * MS)
    assert retired(pair) == set()
    before = pair.network.crossed.copy()
    pair.transfer([1 << 20])
    used = pair.network.crossed - before
    assert used[0, 0] > 0.8 * used[0, 1]


def test_all_paths_of_a_plane_die_in_silence() -> None:
    pair = Pair(seed=5, planes=2, t1s=4)
    for t1 in range(4):
        pair.after(20 * US, lambda t1=t1: pair.kill_path(plane=0, t1=t1))  # type: ignore[misc]
    pair.transfer([1 << 21])
    assert {plane for plane, _ in retired(pair)} == {0}


def test_the_last_path_is_never_given_up() -> None:
    """All paths die for a while, which is more than EV states can mend: the timer brings the rest through."""
    pair = Pair(seed=6, planes=2, t1s=2)

    def all_paths(do: str) -> None:
        for plane in range(2):
            for t1 in range(2):
                getattr(pair, do)(plane, t1)

    pair.after(30 * US, lambda: all_paths("kill_path"))
    pair.after(230 * US, lambda: all_paths("revive_path"))
    pair.transfer([1 << 21])


def test_when_nothing_comes_through_the_queue_pair_fails_after_its_retries() -> None:
    pair = Pair(seed=7, planes=2, t1s=2)
    for plane in range(2):
        for t1 in range(2):
            pair.kill_path(plane, t1)
    with pytest.raises(AssertionError, match="QpFailed"):
        pair.transfer([1 << 16])
    assert [event for event in pair.log if isinstance(event, QpFailed)]


def test_with_the_retiring_of_evs_off_losses_go_on() -> None:
    """The negative control: what the tests above see is the retiring's doing."""
    lost = {}
    for retire in (True, False):
        pair = Pair(seed=8, planes=2, t1s=4, retire_evs=retire)
        pair.kill_path(plane=1, t1=1)
        pair.transfer([4 << 20])
        lost[retire] = pair.qp_a.counters.packets_lost
        assert retired(pair) == ({(1, 1)} if retire else set())
    assert lost[False] > 4 * lost[True]


@pytest.mark.parametrize("which", ["a", "b"])
def test_a_host_that_gets_no_cpu_for_a_while_condemns_no_path(which: str) -> None:
    """A late wake-up is not evidence: packets have arrived, they have only not been looked at."""
    pair = Pair(seed=9, planes=4, t1s=4)
    host = pair.a if which == "a" else pair.b
    for time_ns in (30 * US, 200 * US, 500 * US):
        pair.after(time_ns, lambda: host.stall(for_ns=80 * US))
    outcome = pair.transfer([8 << 20])
    assert not outcome.of_kind(EvChanged)
