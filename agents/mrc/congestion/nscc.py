"""NSCC, the network signal based congestion control of Ultra Ethernet 1.0 (section 3.6.13), which MRC 1.0 names.

The window follows two signals that mean different things. A mark says that one path is fuller than others, and is the
load balancer's business; the delay says how full the fabric is. Only both together shrink the window.

| mark | queueing delay | the window |
|---|---|---|
| no | < target | proportional increase: the further below the target, the more; fast increase on an empty path |
| no | >= target | fair increase: the same for every sender, so that small windows catch up |
| yes | < target | stays: spraying evens this out |
| yes | >= target | multiplicative decrease, at most once per base round trip |

Increases are gathered and applied as (gathered / window) once per adjustment. A trimmed packet shrinks the window by
its size, and lets quick adapt set it to what really arrived in the last round trip, when that is far below the maximum.

Every constant is defined on a reference network (100 Gb/s, base round trip 12 us) and scaled to this one:
a = bandwidth-delay product of this network / of the reference, b = target delay / 12 us.

Some choices are ours, the last three from 7:1 incasts in virtual time at real rates.
- The average delay is that over the last base round trip (the text names no filter): each sample weighs as much as the
  share of it that has passed since the one before.
- The target delay and the largest window follow the configured base round trip, not the shortest one seen: the lab's
  cables are shorter than those of the fabric it stands for, and a target of less than a packet or two per hop would
  mistake every burst for congestion. The floor of the window is one packet.
- An acknowledgement without a round trip of its own (its packet was sent twice) is judged by the average delay, or
  whoever is trimmed most would grow least.
- Fair increase is a quarter of the published 5 a MTU: seven senders to one would add a third of a bandwidth-delay
  product per round trip, a quarter of all packets would be trimmed, and windows drift apart.
- A trimmed packet takes its size from the window, as published, but the first one of a round trip a quarter of it:
  acknowledgements clock packets into a full queue, so that what is trimmed is what windows grew by, which is the same
  for all. If all lost the same again, whoever has most would keep it.
- Quick adapt looks at what arrived in a round trip as long as they are now, and leaves alone a window that is less than
  twice that: it would pin small ones to where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from agents.mrc.config import MrcConfig
from agents.mrc.congestion.base import CongestionControl, Fabric

_REFERENCE_BDP_BYTES = 150_000
_CLEAR_SHARE = 1 / 12  # of the base round trip: a delay below it counts as none (htsim: 1 us of 12)
_TRIM_SHARE = 1 / 4  # of the window, once a round trip
_PENALTY_SHIFT = 7  # rcv_cwnd_pen counts 128ths
_MAX = 10**15  # of any attribute: bytes and ns that no fabric has
_MAX_QA_GATE = 63  # a shift
_WHOLE = {
    "base_rtt",
    "target_delay",
    "max_cwnd",
    "qa_gate",
    "qa_threshold",
    "adjust_bytes_threshold",
    "adjust_period_threshold",
}  # attributes that are whole numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class NsccProfile:
    """The attributes of a congestion control profile, by their names in `mrc_ctl.h`; bytes and ns."""

    base_rtt: int  # first guess; the shortest one seen takes its place
    target_delay: int  # queueing delay that the fabric may have
    eta: float  # bytes added per adjustment period, whatever happens
    fi: float  # fair increase
    fi_scale: float  # fast increase: bytes per byte acknowledged
    alpha: float  # proportional increase
    gamma: float  # multiplicative decrease
    max_md_jump: float  # ... and its smallest factor
    max_cwnd: int  # also the first window
    qa_gate: int  # quick adapt when less than max_cwnd >> qa_gate arrived in a round trip
    qa_threshold: int | None  # ... or the delay is above this; None: only trims and losses call for it
    adjust_bytes_threshold: int  # increases are applied after so many bytes
    adjust_period_threshold: int  # ... or so much time
    disable_qa: bool

    @classmethod
    def derive(cls, config: MrcConfig, fabric: Fabric) -> NsccProfile:
        """The attributes for this network, with what `config.congestion_settings` says by name on top.

        Raises ValueError for names or numbers that make no sense.
        """
        known = {field.name for field in fields(cls)}
        unknown = set(config.congestion_settings) - known
        if unknown:
            raise ValueError(f"NSCC has no setting {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
        given: dict[str, Any] = dict(config.congestion_settings)
        for name, value in given.items():
            _check(name, value)
        mtu = fabric.mtu_bytes
        bdp = fabric.planes * config.plane_bdp_bytes
        base_rtt = given.get("base_rtt", config.initial_rtt_ns)
        target = given.get("target_delay", round((0.75 if config.trimming else 1.0) * base_rtt))
        a = bdp / _REFERENCE_BDP_BYTES
        # b is a ratio of times of the real fabric: 12 us there is the configured base round trip here.
        b = target / config.initial_rtt_ns
        derived = {
            "base_rtt": base_rtt,
            "target_delay": target,
            "eta": 0.15 * a * mtu,
            "fi": 1.25 * a * mtu,
            "fi_scale": 0.25 * a,
            "alpha": 4 * a * b * mtu / target if target else 0.0,
            "gamma": 0.8,
            "max_md_jump": 0.5,
            "max_cwnd": round(1.5 * bdp),
            "qa_gate": 3,
            "qa_threshold": None if config.trimming else 4 * target,
            "adjust_bytes_threshold": 8 * mtu,
            "adjust_period_threshold": base_rtt,
            "disable_qa": False,
        }
        profile = cls(**{**derived, **given})
        for name in ("base_rtt", "target_delay", "max_cwnd", "adjust_bytes_threshold", "adjust_period_threshold"):
            if getattr(profile, name) < 1:
                raise ValueError(f"NSCC: {name} is {getattr(profile, name)}; it has to be at least 1")
        for name in ("gamma", "max_md_jump"):
            if not 0 < getattr(profile, name) <= 1:
                raise ValueError(f"NSCC: {name} is {getattr(profile, name)}; it has to be above 0 and at most 1")
        return profile


def _check(name: str, value: Any) -> None:
    """Raises ValueError for what is no number, or none that the arithmetic of a window can take."""
    if name == "disable_qa":
        if not isinstance(value, bool):
            raise ValueError(f"NSCC: disable_qa has to be true or false, not {value!r:.80}")
        return
    if name == "qa_threshold" and value is None:
        return
    if type(value) is not int and (type(value) is not float or name in _WHOLE):
        raise ValueError(f"NSCC: {name} has to be a {'whole ' if name in _WHOLE else ''}number, not {value!r:.80}")
    highest = _MAX_QA_GATE if name == "qa_gate" else _MAX
    if not 0 <= value <= highest:  # nor is NaN
        raise ValueError(f"NSCC: {name} is {value!r:.80}; it has to be in 0..{highest}")


class Nscc(CongestionControl):
    """The window of one queue pair."""

    def __init__(self, config: MrcConfig, fabric: Fabric) -> None:
        """Raises ValueError for settings that make no sense."""
        profile = self.profile = NsccProfile.derive(config, fabric)
        self.base_rtt_ns = profile.base_rtt
        self.average_delay_ns = 0.0
        self._floor_bytes = fabric.mtu_bytes
        self._window = float(max(profile.max_cwnd, self._floor_bytes))
        self.window_bytes = int(self._window)
        self._increase = 0.0  # gathered; applied as this / window
        self._received_bytes = 0  # since the last adjustment
        self._achieved_bytes = 0  # in this round trip of quick adapt
        self._adjusted_ns: int | None = None  # None: nothing has been heard yet
        self._decreased_ns: int | None = None
        self._trimmed_ns: int | None = None  # when a trimmed packet last took more than its size
        self._delay_ns = 0  # when the last delay was seen
        self._clear_bytes = 0  # in a row that met no queue
        self._fast = False
        self._qa_end_ns: int | None = None
        self._qa_wanted = False
        self._bytes_to_ignore = 0
        self._bytes_ignored = 0

    def on_acked(
        self, size_bytes: int, rtt_ns: int | None, *, marked: bool, penalty: int, in_flight_bytes: int, now: int
    ) -> None:
        """See CongestionControl."""
        self._bytes_ignored += size_bytes
        self._received_bytes += size_bytes
        self._achieved_bytes += size_bytes
        if penalty:
            self._set_window(min(self._window, in_flight_bytes))
            self._set_window(self._window - (penalty * size_bytes >> _PENALTY_SHIFT))
        delay_ns = round(self.average_delay_ns) if rtt_ns is None else self._see_delay(rtt_ns, now)
        if self._quick_adapt(delay_ns, marked, in_flight_bytes, now):
            return
        above = delay_ns >= self.profile.target_delay
        if marked:
            if above:
                self._decrease(now)
        elif penalty:
            pass  # the receiver wants less, not more
        elif above:
            self._increase += self.profile.fi * size_bytes
        elif not self._increase_fast(size_bytes, delay_ns):
            self._increase += self.profile.alpha * size_bytes * (self.profile.target_delay - delay_ns)
        self._adjust(now)

    def on_trimmed(self, size_bytes: int, rtt_ns: int | None, *, in_flight_bytes: int, now: int) -> None:
        """See CongestionControl. The NACK itself met no queue: it says how short a round trip can be."""
        if rtt_ns is not None:
            self.base_rtt_ns = min(self.base_rtt_ns, rtt_ns)
        self._average(self.profile.base_rtt, now)  # what the packet would have waited; nobody knows, but long
        self._bytes_ignored += size_bytes
        self._qa_wanted = True
        if not self._quick_adapt(0, True, in_flight_bytes, now):
            self._set_window(self._window - max(size_bytes, self._share_of_trim(now)))

    def _share_of_trim(self, now: int) -> float:
        """What the first trimmed packet of a round trip takes at least; the others take their size."""
        if self._trimmed_ns is not None and now - self._trimmed_ns <= self.base_rtt_ns + self.average_delay_ns:
            return 0.0
        self._trimmed_ns = now
        return self._window * _TRIM_SHARE

    def on_lost(self, size_bytes: int, now: int) -> None:
        """See CongestionControl."""
        self._bytes_ignored += size_bytes
        self._set_window(self._window - size_bytes)

    def _set_window(self, size: float) -> None:
        self._window = max(self._floor_bytes, min(size, self.profile.max_cwnd))
        self.window_bytes = int(self._window)

    def _see_delay(self, rtt_ns: int, now: int) -> int:
        self.base_rtt_ns = min(self.base_rtt_ns, rtt_ns)
        delay_ns = rtt_ns - self.base_rtt_ns
        self._average(delay_ns, now)
        return delay_ns

    def _average(self, delay_ns: int, now: int) -> None:
        weight = min(1.0, (now - self._delay_ns) / self.base_rtt_ns)
        self.average_delay_ns += weight * (delay_ns - self.average_delay_ns)
        self._delay_ns = now

    def _increase_fast(self, size_bytes: int, delay_ns: int) -> bool:
        """A whole window met no queue: grow with every byte, until one does. True: that is what happens now."""
        if delay_ns < _CLEAR_SHARE * self.profile.base_rtt:
            self._clear_bytes += size_bytes
            if self._fast or self._clear_bytes > self._window:
                self._fast = True
                self._set_window(self._window + self.profile.fi_scale * size_bytes)
                return True
        else:
            self._clear_bytes = 0
        self._fast = False
        return False

    def _decrease(self, now: int) -> None:
        self._fast = False
        self._clear_bytes = 0
        average, target = self.average_delay_ns, self.profile.target_delay
        if average <= target or (self._decreased_ns is not None and now - self._decreased_ns <= self.base_rtt_ns):
            return
        factor = max(1 - self.profile.gamma * (average - target) / average, self.profile.max_md_jump)
        self._set_window(self._window * factor)
        self._decreased_ns = now

    def _quick_adapt(self, delay_ns: int, marked: bool, in_flight_bytes: int, now: int) -> bool:
        """Whether the window is quick adapt's business now."""
        profile = self.profile
        if profile.disable_qa:
            return False
        handled = False
        if marked and self._bytes_ignored < self._bytes_to_ignore:
            handled = True  # what flew when the window was set tells of the queue that it was set for
        elif self._qa_end_ns is None or now >= self._qa_end_ns:
            too_slow = profile.qa_threshold is not None and delay_ns > profile.qa_threshold
            little = self._achieved_bytes < min(profile.max_cwnd >> profile.qa_gate, self._window / 2)
            if self._qa_end_ns is not None and (self._qa_wanted or too_slow) and little:
                self._set_window(self._achieved_bytes)
                self._bytes_to_ignore = in_flight_bytes
                self._bytes_ignored = 0
                self._qa_wanted = False
                handled = True
            self._achieved_bytes = 0
            self._qa_end_ns = now + self.base_rtt_ns + max(profile.target_delay, round(self.average_delay_ns))
        if handled:
            self._increase = 0.0
            self._received_bytes = 0
        return handled

    def _adjust(self, now: int) -> None:
        if self._adjusted_ns is None:
            self._adjusted_ns = now
        period_over = now - self._adjusted_ns >= self.profile.adjust_period_threshold
        if not period_over and self._received_bytes <= self.profile.adjust_bytes_threshold:
            return
        eta = 0.0
        if period_over:
            eta = self.profile.eta
            self._adjusted_ns = now
        self._set_window(self._window + self._increase / self._window + eta)
        self._increase = 0.0
        self._received_bytes = 0
