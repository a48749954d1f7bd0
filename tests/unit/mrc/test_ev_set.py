"""The EV set and its rotation: planes equally loaded whatever happens inside one, same-plane swaps, the floor."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mrc.config import MAX_EVS
from agents.mrc.ev_set import Ev, EvSet, choose, path_of
from agents.mrc.ev_state import USABLE, Cause, State
from agents.wire import ev as ev_format

ALL_READY = 0xFF


def ev_set(
    planes: int = 4, uplinks: int = 4, evs_per_plane: int | None = None, seed: int = 1, **options: object
) -> EvSet:
    options = {"skip_ns": 1000} | options
    rng = Random(seed)
    values, turns = choose(planes, uplinks, evs_per_plane, rng)
    evs = [[Ev(value) for value in plane] for plane in values]
    return EvSet(evs, turns, rng, on_change=lambda *_: None, **options)  # type: ignore[arg-type]


def draw(evs: EvSet, count: int, ready: int = ALL_READY) -> list[Ev]:
    drawn = [evs.draw(ready, 0) for _ in range(count)]
    assert None not in drawn
    return [ev for ev in drawn if ev is not None]


def planes_of(drawn: list[Ev]) -> Counter[int]:
    return Counter(ev.plane for ev in drawn)


class TestChoice:
    def test_default_is_every_path_once(self) -> None:
        values, turns = choose(4, 4, None, Random(1))
        assert turns == 4
        assert {path_of(value) for plane in values for value in plane} == {
            p << 8 | u for p in range(4) for u in range(4)
        }

    def test_never_more_than_the_limit(self) -> None:
        values, turns = choose(8, 200, None, Random(1))
        assert turns * 8 == MAX_EVS
        assert all(len(plane) == 200 for plane in values), "the rest are backups"

    @given(st.integers(1, 8), st.integers(1, 16), st.integers(1, 32), st.integers())
    def test_paths_are_shared_only_when_there_are_none_left(self, planes: int, uplinks: int, n: int, seed: int) -> None:
        values, turns = choose(planes, uplinks, n, Random(seed))
        assert turns == n
        for plane, evs in enumerate(values):
            assert {ev_format.plane_of(value) for value in evs} == {plane}
            assert len(set(evs)) == len(evs), "EVs are different even where paths are not"
            users = Counter(path_of(value) for value in evs[:turns])
            assert max(users.values()) - (0 if len(users) < uplinks else min(users.values())) <= 1
            assert set(map(path_of, evs)) == {plane << 8 | uplink for uplink in range(uplinks)}

    def test_too_many_are_refused(self) -> None:
        with pytest.raises(ValueError, match="33 EVs per plane; with 8 planes it can be 1 to 32"):
            choose(8, 4, 33, Random(1))


class TestRotation:
    def test_each_ev_once_a_round_in_an_order_of_its_own(self) -> None:
        evs = ev_set()
        rounds = [[ev.value for ev in draw(evs, 16)] for _ in range(5)]
        assert all(sorted(drawn) == sorted(ev.value for ev in evs) for drawn in rounds)
        assert len({tuple(drawn) for drawn in rounds}) == 5

    def test_busy_ports_keep_their_turn(self) -> None:
        evs = ev_set(planes=2)
        assert planes_of(draw(evs, 4, ready=0b01)) == {0: 4}
        assert evs.draw(0b01, 0) is None, "plane 1 has not had its turns"
        assert planes_of(draw(evs, 4, ready=0b10)) == {1: 4}
        assert planes_of(draw(evs, 8)) == {0: 4, 1: 4}

    def test_a_retransmission_takes_another_path(self) -> None:
        evs = ev_set(planes=1, uplinks=2)
        for _ in range(20):
            ev = evs.draw(1, 0, avoid_path=0)
            assert ev is not None and ev.path == 1

    def test_unless_there_is_no_other(self) -> None:
        evs = ev_set(planes=1, uplinks=1)
        ev = evs.draw(1, 0, avoid_path=0)
        assert ev is not None and ev.path == 0

    def test_the_first_skip_passed_is_good_again_and_not_used(self) -> None:
        evs = ev_set(planes=1)
        first, second, *_ = list(evs)
        evs.apply(first, Cause.MARKED, 0)
        evs.apply(second, Cause.MARKED, 0)
        drawn = draw(evs, 1)[0]
        while State.SKIP in (first.state, second.state):
            skips = [first.state, second.state].count(State.SKIP)
            drawn = draw(evs, 1)[0]
            assert [first.state, second.state].count(State.SKIP) >= skips - 1, "at most one a packet"
            assert drawn.state is State.GOOD
        assert set(draw(evs, 8)) == set(evs)

    def test_a_skip_whose_time_has_ended_is_used_when_its_turn_comes(self) -> None:
        evs = ev_set(planes=1, skip_ns=100)
        marked = next(iter(evs))
        evs.apply(marked, Cause.MARKED, 0)
        drawn = [evs.draw(1, 100) for _ in range(4)]
        assert set(drawn) == set(evs) and marked.state is State.GOOD

    def test_all_skip_still_sends(self) -> None:
        evs = ev_set(planes=1)
        for ev in evs:
            evs.apply(ev, Cause.MARKED, 0)
        assert evs.draw(1, 0) is not None


class TestTurns:
    @pytest.mark.parametrize("seed", range(8))
    def test_of_several_skips_passed_for_one_packet_only_the_first_is_good_again(self, seed: int) -> None:
        evs = ev_set(planes=1, uplinks=8, seed=seed)
        everything = list(evs)
        for ev in everything[:7]:
            evs.apply(ev, Cause.MARKED, 0)
        (drawn,) = draw(evs, 1)
        assert drawn is everything[7]
        assert [ev.state for ev in everything].count(State.SKIP) >= 6

    def test_what_is_left_of_a_round_comes_before_the_next(self) -> None:
        evs = ev_set(planes=2, uplinks=4)
        first = draw(evs, 4, ready=0b01)
        assert evs.draw(0b01, 0) is None
        assert len(first) == 4
        rest = draw(evs, 4)
        assert planes_of(rest) == {1: 4}, "plane 1 had not had its turns of this round"

    @pytest.mark.parametrize("seed", range(8))
    def test_a_turn_that_a_retransmission_avoided_comes_before_the_next_round(self, seed: int) -> None:
        evs = ev_set(planes=1, uplinks=3, seed=seed)
        for _ in range(3):  # the third has to begin a round
            ev = evs.draw(1, 0, avoid_path=0)
            assert ev is not None and ev.path != 0
        assert draw(evs, 1)[0].path == 0

    def test_turns_of_evs_that_are_retired_in_mid_round_are_spread_over_their_plane(self) -> None:
        evs = ev_set(planes=1, uplinks=8)
        first = draw(evs, 1)[0]
        for victim in [ev for ev in evs if ev is not first][:3]:
            evs.apply(victim, Cause.LOST, 0)
        shares = Counter(ev.path for ev in [first, *draw(evs, 7)])
        assert sorted(shares.values()) == [1, 1, 2, 2, 2]


class TestRetiring:
    def test_a_backup_of_the_same_plane_takes_over(self) -> None:
        evs = ev_set(planes=2, uplinks=4, evs_per_plane=2)
        victim = evs.in_use(0)[0]
        backups = set(evs) - set(evs.in_use(0)) - set(evs.in_use(1))
        assert evs.apply(victim, Cause.LOST, 0)
        new = set(evs.in_use(0)) - {victim}
        assert len(evs.in_use(0)) == 2 and victim not in evs.in_use(0)
        assert len(new & backups) == 1 and all(ev.plane == 0 for ev in new)

    def test_without_a_backup_the_others_of_the_plane_share_its_turns_equally(self) -> None:
        evs = ev_set(planes=2, uplinks=4)
        victim = evs.in_use(0)[0]
        evs.apply(victim, Cause.LOST, 0)
        shares = Counter(draw(evs, 8 * 300))
        assert victim not in shares
        assert {shares[ev] for ev in evs.in_use(0)} == {400}
        assert {shares[ev] for ev in evs.in_use(1)} == {300}

    def test_one_that_comes_back_has_its_turns_again(self) -> None:
        evs = ev_set(planes=1)
        victim = evs.in_use(0)[0]
        evs.apply(victim, Cause.LOST, 0)
        draw(evs, 4)
        evs.apply(victim, Cause.PROBED, 0)
        assert set(Counter(draw(evs, 400)).values()) == {100}

    def test_never_below_the_floor(self) -> None:
        evs = ev_set(planes=2, uplinks=2, min_active=3)
        first, second, *_ = list(evs)
        assert evs.apply(first, Cause.LOST, 0)
        assert not evs.apply(second, Cause.LOST, 0)
        assert second.state is State.GOOD and evs.usable() == 3

    def test_a_plane_that_is_down_does_not_count_for_the_floor(self) -> None:
        evs = ev_set(planes=2, uplinks=1, min_active=1)
        evs.set_planes_up(0b10)
        assert not evs.apply(evs.in_use(1)[0], Cause.LOST, 0)
        assert evs.apply(evs.in_use(0)[0], Cause.LOST, 0)

    def test_the_controller_may_go_below_the_floor(self) -> None:
        evs = ev_set(planes=1, uplinks=1)
        assert evs.apply(next(iter(evs)), Cause.DENY, 0)
        assert evs.draw(1, 0) is None

    def test_not_at_all_when_retiring_is_off(self) -> None:
        evs = ev_set(retire=False)
        assert not any(evs.apply(ev, Cause.LOST, 0) for ev in evs)

    def test_a_plane_without_evs_carries_nothing_and_the_rest_goes_on(self) -> None:
        evs = ev_set(planes=2, uplinks=2)
        for ev in list(evs.in_use(0)):
            evs.apply(ev, Cause.LOST, 0)
        assert planes_of(draw(evs, 20)) == {1: 20}


class TestPlanes:
    def test_down_gives_up_all_turns_at_once_and_up_takes_them_back(self) -> None:
        evs = ev_set(planes=4)
        draw(evs, 3)
        evs.set_planes_up(0b1011)
        assert set(planes_of(draw(evs, 48))) == {0, 1, 3}
        evs.set_planes_up(0b1111)
        counts = planes_of(draw(evs, 16 * 50))  # begins and ends inside a round
        assert all(abs(counts[plane] - 4 * 50) <= 4 for plane in range(4))

    def test_all_down_sends_nothing(self) -> None:
        evs = ev_set()
        evs.set_planes_up(0)
        assert evs.draw(ALL_READY, 0) is None and evs.any_usable() is None


events = st.lists(
    st.tuples(st.integers(0, 31), st.sampled_from([Cause.LOST, Cause.PROBED, Cause.DENY, Cause.ALLOW, Cause.MARKED])),
    max_size=60,
)


def test_rounds_are_drawn_as_the_library_draws_them() -> None:
    """`ev_set` shuffles by code of its own, for speed: the same seed has to give the same rounds."""
    for seed in range(20):
        planes, uplinks = 1 + seed % 4, 1 + seed
        evs, library = ev_set(planes, uplinks, uplinks, seed), Random()
        in_use = [ev for plane in range(planes) for ev in evs.in_use(plane)]
        for _ in range(3):
            library.setstate(evs._rng.getstate())
            library.shuffle(expected := in_use[:])
            assert draw(evs, len(in_use)) == expected[::-1]


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 8), st.integers(1, 4), events, st.integers(0, 9))
def test_whatever_happens(
    planes: int, uplinks: int, n: int, floor: int, happenings: list[tuple[int, Cause]], seed: int
) -> None:
    evs = ev_set(planes, uplinks, n, seed, min_active=floor)
    everything = list(evs)
    for index, cause in happenings:
        before = evs.usable()
        ev = everything[index % len(everything)]
        changed = evs.apply(ev, cause, 0)
        if cause is Cause.LOST and changed:
            assert evs.usable() == before - 1 >= floor
        drawn = evs.draw(ALL_READY, 0)
        assert (drawn is None) == (evs.usable() == 0)
        assert drawn is None or drawn.state is State.GOOD

    for plane in range(planes):
        in_use = evs.in_use(plane)
        usable = [ev for ev in everything if ev.plane == plane and ev.state in USABLE]
        assert len(in_use) == len(set(in_use)) == min(n, len(usable)) and set(in_use) <= set(usable)
    for ev in everything:
        if ev.state is State.SKIP:
            evs.apply(ev, Cause.PASSED, 0)
    alive = [plane for plane in range(planes) if evs.in_use(plane)]
    if alive:
        draw(evs, 2 * len(alive) * n)  # what was left of the round that began before
        counts = planes_of(draw(evs, 20 * len(alive) * n))  # begins and ends inside a round
        assert all(abs(counts[plane] - 20 * n) <= n for plane in alive), "planes are equally loaded"
