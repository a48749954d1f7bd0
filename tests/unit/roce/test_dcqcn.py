"""DCQCN's decisions against the published algorithm (SIGCOMM 2015, section 3), worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.roce.dcqcn import PROFILES, NotificationPoint, ReactionPoint, profile

US, MBPS, GBPS = 1000, 10**6, 10**9
PUBLISHED = PROFILES["published"]
LINE = PUBLISHED.for_link_bps
STEP = PUBLISHED.increase_interval_ns


def test_it_begins_at_line_rate_and_stays_there() -> None:
    point = ReactionPoint(PUBLISHED)
    point.on_sent(10**9)
    point.advance(10**9)
    assert (point.rate_bps, point.next_timer()) == (LINE, None)


def test_the_first_cnp_halves_the_rate_and_remembers_the_old_one() -> None:
    point = ReactionPoint(PUBLISHED)
    point.on_cnp(0)
    assert (point.rate_bps, point.target_bps) == (LINE / 2, LINE)
    assert point.alpha(0) == 1.0, "(1-g) x 1 + g"


def test_alpha_decays_by_g_in_each_interval_without_a_cnp_and_the_next_cut_is_the_smaller() -> None:
    point = ReactionPoint(PUBLISHED)
    point.on_cnp(0)
    assert point.alpha(54 * US) == 1.0
    assert point.alpha(55 * US) == 1 - 1 / 256
    assert point.alpha(55 * US * 100) == pytest.approx((1 - 1 / 256) ** 100)
    before = point.rate_bps
    alpha = point.alpha(55 * US * 100)
    point.on_cnp(55 * US * 100)
    advanced = point.target_bps  # R at the moment of the CNP, after a hundred timer steps
    assert advanced > before
    assert point.rate_bps == pytest.approx(advanced * (1 - alpha / 2))
    assert point.alpha(55 * US * 100) == pytest.approx((1 - 1 / 256) * alpha + 1 / 256)


def test_five_steps_of_recovery_halve_the_gap_to_the_target() -> None:
    """F = 5: while both stages are below 5 the target stays; the fifth step is the first of additive increase."""
    point = ReactionPoint(PUBLISHED)
    point.on_cnp(0)
    point.on_cnp(0)  # R = line/4, Rt = line/2
    rate, target = LINE / 4, LINE / 2
    for step in range(1, 5):
        point.advance(step * STEP)
        rate = (rate + target) / 2
        assert (point.rate_bps, point.target_bps) == (rate, target)
    point.advance(5 * STEP)
    target += 40 * MBPS
    assert (point.rate_bps, point.target_bps) == ((rate + target) / 2, target)


def test_the_timer_alone_goes_on_with_additive_increase() -> None:
    point = ReactionPoint(PUBLISHED)
    point.on_cnp(0)
    point.on_cnp(0)
    point.advance(50 * STEP)
    assert point.target_bps == LINE / 2 + (50 - 4) * 40 * MBPS


def test_both_stages_beyond_f_make_it_hyper() -> None:
    point = ReactionPoint(PUBLISHED)
    point.on_cnp(0)
    point.on_cnp(0)
    point.advance(6 * STEP)
    assert point.target_bps == LINE / 2 + 2 * 40 * MBPS
    point.on_sent(5 * PUBLISHED.increase_bytes)  # byte stages 1..5: still additive
    assert point.target_bps == LINE / 2 + 7 * 40 * MBPS
    point.on_sent(PUBLISHED.increase_bytes)  # 6 > F, as the timer's 6
    assert point.target_bps == LINE / 2 + 7 * 40 * MBPS + 400 * MBPS


def test_the_byte_counter_counts_by_itself() -> None:
    point = ReactionPoint(PUBLISHED)
    point.on_cnp(0)
    point.on_sent(PUBLISHED.increase_bytes - 1)
    assert point.rate_bps == LINE / 2
    point.on_sent(1)
    assert point.rate_bps == LINE * 3 / 4


def test_a_cnp_starts_the_stages_anew() -> None:
    point = ReactionPoint(PUBLISHED)
    point.on_cnp(0)
    point.advance(7 * STEP)
    point.on_sent(PUBLISHED.increase_bytes - 1)
    now = 7 * STEP + 1
    point.on_cnp(now)
    target = point.target_bps
    assert point.next_timer() == now + STEP
    point.on_sent(1)  # the bytes of before do not count
    point.advance(now + 4 * STEP)
    assert point.target_bps == target, "fast recovery again"


def test_the_rate_comes_back_to_the_line_and_rests() -> None:
    point = ReactionPoint(PUBLISHED)
    point.on_cnp(0)
    point.advance(10**9)
    assert (point.rate_bps, point.target_bps, point.next_timer()) == (LINE, LINE, None)


@pytest.mark.parametrize("name", PROFILES)
@given(steps=st.lists(st.tuples(st.sampled_from(["cnp", "sent", "wait"]), st.integers(1, 1000)), max_size=200))
def test_the_rate_stays_between_its_floor_and_the_line(name: str, steps: list[tuple[str, int]]) -> None:
    point, now = ReactionPoint(PROFILES[name]), 0
    line = PROFILES[name].for_link_bps
    for kind, size in steps:
        now += size * US
        if kind == "cnp":
            point.on_cnp(now)
        elif kind == "sent":
            point.on_sent(size * 10_000)
        else:
            point.advance(now)
        assert line / 1000 <= point.rate_bps <= point.target_bps <= line or point.rate_bps == line / 1000
        assert 0 < point.alpha(now) <= 1


def test_a_cnp_goes_out_once_in_an_interval_while_marks_come() -> None:
    point = NotificationPoint(PUBLISHED)
    told = [now for now in range(0, 200 * US, US) if point.on_mark(now)]
    assert told == [0, 50 * US, 100 * US, 150 * US]
    assert NotificationPoint(PUBLISHED).on_mark(12345), "the first mark is told at once"


def test_scaling_keeps_the_shape() -> None:
    """At 2.5 times the speed and 1000 times slower time: steps are the same part of the line, per dilated interval."""
    scaled = PUBLISHED.scaled(100 * GBPS, 1000)
    assert scaled.for_link_bps == 100 * MBPS
    assert scaled.additive_bps / scaled.for_link_bps == PUBLISHED.additive_bps / LINE
    assert scaled.hyper_bps / scaled.for_link_bps == PUBLISHED.hyper_bps / LINE
    assert scaled.increase_bytes == 25_000_000
    assert scaled.increase_interval_ns == 55_000 * US
    assert scaled.cnp_interval_ns == 50_000 * US
    assert scaled.alpha_interval_ns == 55_000 * US
    assert (scaled.g, scaled.recovery_stages) == (PUBLISHED.g, PUBLISHED.recovery_stages)
    assert PUBLISHED.scaled(LINE, 1) == PUBLISHED


def test_an_unknown_profile_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="'best'; there are: published, vendor, gentle, eager"):
        profile("best")
