"""The binomial arithmetic, held against its definition and against drawn losses."""

from __future__ import annotations

import math
from random import Random

import pytest

from agents.clustermapper.evidence import (
    critical,
    loss_would_show,
    lossy_scale,
    odds_apart,
    probes_needed,
    probes_needed_apart,
    probes_to_clear,
    tail,
)
from agents.clustermapper.settings import FALSE_ALARM, ODDS, POWER, SCALES, WINDOW


@pytest.mark.parametrize(("lost", "probes", "loss"), [(1, 5, 0.2), (3, 64, 0.001), (40, 64, 0.5), (7, 1024, 0.01)])
def test_the_tail_is_the_sum_of_the_binomial(lost: int, probes: int, loss: float) -> None:
    terms = (math.comb(probes, at) * loss**at * (1 - loss) ** (probes - at) for at in range(lost, probes + 1))
    assert tail(lost, probes, loss) == pytest.approx(math.fsum(terms), rel=1e-9)


def test_the_edges_of_the_tail() -> None:
    assert tail(0, 10, 0.5) == 1 and tail(11, 10, 0.5) == 0 and tail(10, 10, 1.0) == 1 and tail(1, 10, 0.0) == 0


@pytest.mark.parametrize("scale", SCALES)
def test_one_lost_less_than_critical_is_no_alarm(scale: int) -> None:
    chance = FALSE_ALARM / len(SCALES)
    lost = critical(scale, chance=chance)
    assert tail(lost, scale, 0.001) < chance <= tail(lost - 1, scale, 0.001)


def test_the_newest_probes_tell_after_a_long_good_past() -> None:
    ages = [0, 5, 9, 20]  # four lost of the newest 64
    assert lossy_scale(lambda newest: sum(age < newest for age in ages), WINDOW) == 64
    assert lossy_scale(lambda newest: sum(age < newest for age in ages[:3]), WINDOW) is None


@pytest.mark.parametrize("loss", [0.05, 1 - 0.95**2, 0.2])
def test_so_many_probes_show_a_loss_with_the_power_that_is_claimed(loss: float, rng: Random) -> None:
    needed, runs = probes_needed(loss), 400
    found = 0
    for _ in range(runs):
        lost = [at for at in range(needed) if rng.random() < loss]
        found += any(
            lossy_scale(lambda newest, now=now, lost=lost: sum(now - newest < at <= now for at in lost), WINDOW)
            for now in lost
        )
    assert found >= (POWER - 0.02) * runs
    assert tail(1, needed, loss) > POWER  # it is not that a single loss would do


def test_more_probes_are_needed_for_less_loss_and_to_tell_two_parts_apart() -> None:
    assert probes_needed(0.05) > probes_needed(0.1) > probes_needed(0.5)
    assert probes_needed_apart(0.05) > probes_needed(0.05)
    with pytest.raises(ValueError, match="does not show"):
        probes_needed(0.005)


def test_odds_speak_only_against_the_one_that_loses_more() -> None:
    assert odds_apart(0, 100, 10, 100) == 1
    assert odds_apart(10, 1000, 0, 1000) > ODDS > odds_apart(5, 1000, 0, 1000) > 1
    assert odds_apart(10, 100, 8, 100) < 2


def test_what_so_many_probes_would_have_shown_is_what_they_show() -> None:
    shown = loss_would_show(300)
    assert probes_needed(shown) <= 300 < probes_needed(shown * 0.9)
    assert loss_would_show(0) == 1 and probes_to_clear(1.0) == 1 and (1 - 0.05) ** probes_to_clear(0.05) <= 0.01
