"""DCQCN, the rate control of RoCEv2 (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015).

Switches mark (CP), the receiver answers marks by CNPs (NP), the sender adapts its rate R to them (RP), section 3:

    on a CNP              Rt = R; R *= 1 - alpha/2; alpha = (1-g) alpha + g; the stages start anew
    a time without one    alpha = (1-g) alpha
    timer or byte counter that stage counts one up; then R = (R + Rt) / 2, and before that
                            fast recovery (both stages below F): Rt as it is
                            hyper increase (both beyond F): Rt += HAI
                            additive increase (otherwise): Rt += AI

Decided here, where the paper leaves it open: hyper increase adds the same HAI each time, R has a floor, and the stages
rest while R and Rt are the line rate. Time comes in as `now`, ns; rates are bits per second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_SHARE_OF_LINE_FLOOR = 1 / 1000  # R never falls below this


@dataclass(frozen=True, slots=True, kw_only=True)
class DcqcnProfile:
    """Parameters, for links of `for_link_bps`."""

    for_link_bps: int
    g: float  # weight of the newest mark in alpha
    alpha_interval_ns: int  # without a CNP for so long, alpha decays
    cnp_interval_ns: int  # a CNP per queue pair at most so often
    increase_interval_ns: int  # the timer stage
    increase_bytes: int  # the byte counter's stage
    recovery_stages: int  # F
    additive_bps: int
    hyper_bps: int

    def scaled(self, link_bps: int, time_dilation: float) -> DcqcnProfile:
        """For links of another speed, in dilated time.

        `link_bps` is the real link's speed. Steps and bytes grow with it, so that a link is filled in the same time;
        then times grow by the dilation and steps shrink by it, while bytes stay bytes.
        """
        faster = link_bps / self.for_link_bps
        return replace(
            self,
            for_link_bps=round(link_bps / time_dilation),
            alpha_interval_ns=round(self.alpha_interval_ns * time_dilation),
            cnp_interval_ns=round(self.cnp_interval_ns * time_dilation),
            increase_interval_ns=round(self.increase_interval_ns * time_dilation),
            increase_bytes=max(1, round(self.increase_bytes * faster)),
            additive_bps=max(1, round(self.additive_bps * faster / time_dilation)),
            hyper_bps=max(1, round(self.hyper_bps * faster / time_dilation)),
        )


_GBPS, _MBPS, _MB, _US = 10**9, 10**6, 10**6, 1000

# The paper's parameters, for its 40 Gb/s links; it names no HAI: ten AI, as in the vendor's set.
_PUBLISHED = DcqcnProfile(
    for_link_bps=40 * _GBPS,
    g=1 / 256,
    alpha_interval_ns=55 * _US,
    cnp_interval_ns=50 * _US,
    increase_interval_ns=55 * _US,
    increase_bytes=10 * _MB,
    recovery_stages=5,
    additive_bps=40 * _MBPS,
    hyper_bps=400 * _MBPS,
)
# What a widely used NIC comes with, from dumps of its settings: g is 1 - 1019/1024, and alpha is seen to each us.
_VENDOR = replace(
    _PUBLISHED,
    g=5 / 1024,
    alpha_interval_ns=1 * _US,
    cnp_interval_ns=4 * _US,
    increase_interval_ns=300 * _US,
    increase_bytes=2 * _MB,
    recovery_stages=1,
    additive_bps=5 * _MBPS,
    hyper_bps=50 * _MBPS,
)

PROFILES: dict[str, DcqcnProfile] = {
    "published": _PUBLISHED,
    "vendor": _VENDOR,
    # Tuned for shallow queues: the vendor's quick decrease, and a slower increase (cf. Li et al., HPCC, SIGCOMM 2019).
    "gentle": replace(_VENDOR, increase_interval_ns=900 * _US),
    # Tuned for throughput: the paper's timer and recovery, and steps that fill a link again in a tenth of the time.
    "eager": replace(_PUBLISHED, increase_bytes=2 * _MB, additive_bps=400 * _MBPS, hyper_bps=4 * _GBPS),
}


def profile(name: str) -> DcqcnProfile:
    """The profile of this name. Raises ValueError with the names there are."""
    found = PROFILES.get(name)
    if found is None:
        raise ValueError(f"no DCQCN profile is called {name!r}; there are: {', '.join(PROFILES)}")
    return found


class NotificationPoint:
    """The receiver: says when a mark has to be told."""

    def __init__(self, profile: DcqcnProfile) -> None:
        self._interval_ns = profile.cnp_interval_ns
        self._last_ns: int | None = None

    def on_mark(self, now: int) -> bool:
        """A marked packet came in: whether a CNP goes out for it."""
        if self._last_ns is not None and now - self._last_ns < self._interval_ns:
            return False
        self._last_ns = now
        return True


class ReactionPoint:
    """The sender: its rate. Begins at line rate, which is `profile.for_link_bps`."""

    def __init__(self, profile: DcqcnProfile) -> None:
        self.rate_bps = float(profile.for_link_bps)
        self.target_bps = self.rate_bps
        self._profile = profile
        self._line_bps = self.rate_bps
        self._floor_bps = self.rate_bps * _SHARE_OF_LINE_FLOOR
        self._alpha = 1.0
        self._alpha_ns = 0  # up to when alpha's decay is accounted for
        self._timer_ns: int | None = None  # when the timer stage counts next; None: rests at line rate
        self._timer_stage = 0
        self._byte_stage = 0
        self._bytes = 0  # since the byte stage counted last

    def alpha(self, now: int) -> float:
        """The estimate of congestion, 0..1."""
        elapsed = (now - self._alpha_ns) // self._profile.alpha_interval_ns
        if elapsed > 0:
            self._alpha *= (1 - self._profile.g) ** elapsed
            self._alpha_ns += elapsed * self._profile.alpha_interval_ns
        return self._alpha

    def on_cnp(self, now: int) -> None:
        """The receiver reports congestion."""
        self.advance(now)
        alpha = self.alpha(now)
        self.target_bps = self.rate_bps
        self.rate_bps = max(self._floor_bps, self.rate_bps * (1 - alpha / 2))
        self._alpha = (1 - self._profile.g) * alpha + self._profile.g
        self._alpha_ns = now
        self._timer_stage = self._byte_stage = self._bytes = 0
        self._timer_ns = now + self._profile.increase_interval_ns

    def on_sent(self, size_bytes: int) -> None:
        """So many bytes have left."""
        if self._timer_ns is None:
            return
        self._bytes += size_bytes
        while self._bytes >= self._profile.increase_bytes:
            self._bytes -= self._profile.increase_bytes
            self._byte_stage += 1
            self._increase()

    def next_timer(self) -> int | None:
        """When the rate changes next by itself, in ns."""
        return self._timer_ns

    def advance(self, now: int) -> None:
        """Let the timer stage count up to `now`."""
        while self._timer_ns is not None and self._timer_ns <= now:
            self._timer_ns += self._profile.increase_interval_ns
            self._timer_stage += 1
            self._increase()

    def _increase(self) -> None:
        stages = self._timer_stage, self._byte_stage
        last = self._profile.recovery_stages
        if min(stages) > last:
            self.target_bps += self._profile.hyper_bps
        elif max(stages) >= last:
            self.target_bps += self._profile.additive_bps
        self.target_bps = min(self._line_bps, self.target_bps)
        self.rate_bps = (self.rate_bps + self.target_bps) / 2
        if self._line_bps - self.rate_bps < 1:
            self.rate_bps = self._line_bps
            self._timer_ns = None
