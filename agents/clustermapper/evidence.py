"""What counts of lost probes say: exact binomial tests, and how many probes they need. Probabilities are 0..1."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from agents.clustermapper.settings import FALSE_ALARM, HEALTHY_LOSS, ODDS, POWER, SCALES, WINDOW

_NEGLIGIBLE = 1e-18


def tail(lost: int, probes: int, loss: float) -> float:
    """P[at least `lost` of `probes` are lost], when each is with probability `loss`."""
    if lost <= 0:
        return 1.0
    if lost > probes or loss <= 0:
        return 0.0
    if loss >= 1:
        return 1.0
    mean = probes * loss
    if lost <= mean:  # most of the mass is above: what lies below is the shorter sum
        return max(0.0, 1.0 - _sum(probes, loss, lost - 1, -1))
    return min(1.0, _sum(probes, loss, lost, 1))


def _sum(probes: int, loss: float, first: int, step: int) -> float:
    """P[first] + P[first + step] + ... as far as it matters."""
    term = math.exp(
        math.lgamma(probes + 1)
        - math.lgamma(first + 1)
        - math.lgamma(probes - first + 1)
        + first * math.log(loss)
        + (probes - first) * math.log1p(-loss)
    )
    total, at, odds = 0.0, first, loss / (1 - loss)
    while term > _NEGLIGIBLE * max(total, 1e-300) and 0 <= at <= probes:
        total += term
        term *= odds * (probes - at) / (at + 1) if step > 0 else at / ((probes - at + 1) * odds)
        at += step
    return total


def odds_apart(lost: int, probes: int, other_lost: int, other_probes: int) -> float:
    """How many times likelier what was seen is when the first path loses more than the other than when both lose alike.

    The generalised likelihood ratio of two binomials; 1 when the first does not lose a larger share.
    """
    if not probes or not other_probes or lost * other_probes <= other_lost * probes:
        return 1.0
    apart = _log_likelihood(lost, probes) + _log_likelihood(other_lost, other_probes)
    alike = (lost + other_lost) / (probes + other_probes)
    together = _log_likelihood(lost, probes, alike) + _log_likelihood(other_lost, other_probes, alike)
    return math.exp(min(apart - together, 700.0))


def _log_likelihood(lost: int, probes: int, loss: float | None = None) -> float:
    loss = lost / probes if loss is None else loss
    kept = probes - lost
    return (lost * math.log(loss) if lost else 0.0) + (kept * math.log1p(-loss) if kept else 0.0)


def critical(scale: int, bound: float = HEALTHY_LOSS, chance: float = FALSE_ALARM) -> int:
    """The fewest lost of `scale` probes that a path with no more loss than `bound` shows with less than that chance."""
    return _critical(scale, bound, chance)


@lru_cache(maxsize=1024)
def _critical(scale: int, bound: float, chance: float) -> int:
    return next(lost for lost in range(1, scale + 2) if lost > scale or tail(lost, scale, bound) < chance)


def lossy_scale(lost_of: Callable[[int], int], probes: int) -> int | None:
    """The smallest scale (or all there is, if less) in whose newest probes more are lost than on a healthy path.

    `lost_of(n)`: how many of the newest n. None: no scale says so.
    """
    for scale in SCALES:
        newest = min(scale, probes)
        if lost_of(newest) >= critical(newest, chance=FALSE_ALARM / len(SCALES)):
            return newest
        if newest == probes:
            break
    return None


@lru_cache(maxsize=256)
def probes_needed(loss: float, power: float = POWER) -> int:
    """Probes of a path after which `loss` has shown (`lossy_scale`) with probability `power`, however good its past.

    Raises ValueError for a loss that does not show within the longest scale.
    """
    return _needed(loss, power, 1)


@lru_cache(maxsize=256)
def probes_needed_apart(loss: float, power: float = POWER) -> int:
    """The same for the part of a path behind its T0: it is accused when the odds are that only the T1's probes lose."""
    return _needed(loss, power, next(lost for lost in range(1, WINDOW) if odds_apart(lost, WINDOW, 0, WINDOW) >= ODDS))


def _needed(loss: float, power: float, least: int) -> int:
    for scale in SCALES:
        wanted = max(least, critical(scale, chance=FALSE_ALARM / len(SCALES)))
        if tail(wanted, scale, loss) >= power:
            return next(probes for probes in range(wanted, scale + 1) if tail(wanted, probes, loss) >= power)
    raise ValueError(f"a loss of {loss:g} does not show within {WINDOW} probes with probability {power:g}")


def probes_to_clear(loss: float, chance: float = 1 - POWER) -> int:
    """Good probes in a row after which a path that lost `loss` is taken as mended: it would show one less often."""
    if loss >= 1:
        return 1
    return math.ceil(math.log(chance) / math.log1p(-loss))


def loss_would_show(probes: int, power: float = POWER) -> float:
    """The smallest loss that has shown with probability `power` after so many probes; 1 when none has."""
    low, high = HEALTHY_LOSS, 1.0
    for _ in range(12):
        middle = math.sqrt(low * high)
        try:
            shown = probes_needed(middle, power) <= probes
        except ValueError:
            shown = False
        low, high = (low, middle) if shown else (middle, high)
    return high
