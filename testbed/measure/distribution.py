"""Many observations of one figure -> what can be said of it: quantiles, mean, and how sure that is.

Confidence intervals are for 95 %: of a median by order statistics (exact, no assumption about the distribution), of a
share by Wilson. Quantiles are observations, never values between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb, inf, isinf, sqrt

_CONFIDENCE = 0.95
_Z = 1.959964  # of the normal distribution, for that confidence
_EXACT_UP_TO = 1000  # observations; beyond, the binomial is taken for normal


@dataclass(frozen=True, slots=True)
class Distribution:
    """`values` in ascending order; at least one. What never came is infinite, and last."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Distribution | None:
        """None when there are no observations."""
        return cls(tuple(sorted(values))) if values else None

    @property
    def count(self) -> int:
        """Observations."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """The arithmetic mean of those that came; None when none did."""
        came = [value for value in self.values if not isinf(value)]
        return sum(came) / len(came) if came else None

    def quantile(self, share: float) -> float:
        """The smallest observation that at least this share (0..1) of all do not exceed."""
        return self.values[max(0, ceil(share * self.count - 1e-9) - 1)]

    def median_interval(self) -> tuple[float, float] | None:
        """Between which observations the median lies with 95 % confidence; None with fewer than six of them."""
        rank = _interval_rank(self.count)
        return None if rank is None else (self.values[rank], self.values[self.count - 1 - rank])

    def as_dict(self) -> dict[str, float | int | list[float | None] | None]:
        """For JSON, without the observations; null stands for infinite, of which JSON knows nothing."""
        interval = self.median_interval()
        return {
            "count": self.count,
            "never": self.values.count(inf),
            "mean": self.mean,
            "min": _told(self.values[0]),
            "median": _told(self.quantile(0.5)),
            "median_interval": None if interval is None else [_told(value) for value in interval],
            "p95": _told(self.quantile(0.95)),
            "max": _told(self.values[-1]),
        }


def _told(value: float) -> float | None:
    return None if isinf(value) else value


def _interval_rank(count: int) -> int | None:
    """The largest k for which the k-th from below and from above (from 0) enclose the median with confidence."""
    if count > _EXACT_UP_TO:
        return max(0, int((count - _Z * sqrt(count)) / 2) - 1)
    outside, rank = 0.0, None
    for k in range(count // 2):
        outside += comb(count, k) / 2 ** (count - 1)  # both tails: fewer than k + 1 observations below, or above
        if outside > 1 - _CONFIDENCE:
            break
        rank = k
    return rank


def share_interval(hits: int, count: int) -> tuple[float, float]:
    """Between what the true share lies with 95 % confidence, when `hits` of `count` were seen (Wilson). `count` > 0."""
    share = hits / count
    middle = share + _Z**2 / (2 * count)
    spread = _Z * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    scale = 1 + _Z**2 / count
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
