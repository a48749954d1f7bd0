"""The denylist policy of a host for its own planes (paper, section 4).

A NIC-T0 link that loses more than a bound is worse than one plane less: the transport takes its EVs out of use and
brings them back in turns, as long as it loses. So the plane is denied as a whole, and the peers are told. A T0-T1 link
is one path of many; what the transport does about it is enough, and it is only reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.clustermapper.evidence import tail
from agents.clustermapper.settings import DEAD_RUN, SCALES, WINDOW, Settings
from agents.clustermapper.track import PathState, Track

_CHANCE = 1e-3  # that a link which loses just the bound is denied
_LONGEST_HOLD = 16  # times the first


@dataclass(frozen=True, slots=True)
class Decision:
    """A plane was denied, was to be denied but is the last one (`kept`), or is allowed again; with the evidence."""

    now_ns: int
    plane: int
    action: str  # "denied", "kept", "allowed"
    why: str
    probes: int
    lost: int


class PlanePolicy:
    """The decisions about one plane."""

    def __init__(self, plane: int) -> None:
        self.plane = plane
        self.denied = False
        self._kept = False
        self._hold = 1
        self._changed_ns = 0

    def decide(self, track: Track, settings: Settings, last: bool, now: int) -> Decision | None:
        """A change, by the plane's T0 probes. `last`: no other plane is in use that leads everywhere this one does."""
        if self.denied:
            return self._allow(track, settings, last, now)
        reason = _too_lossy(track, settings.loss_bound)
        if reason is None:
            self._kept = False
            return None
        if last:
            if self._kept:
                return None
            self._kept = True
            return Decision(now, self.plane, "kept", f"{reason[0]}, but no other plane would be left", *reason[1:])
        relapsed = now - self._changed_ns < 10 * self._hold * settings.hold_intervals * settings.interval_ns
        self._hold = min(2 * self._hold, _LONGEST_HOLD) if self._changed_ns and relapsed else 1
        self.denied, self._kept, self._changed_ns = True, False, now
        return Decision(now, self.plane, "denied", *reason)

    def _allow(self, track: Track, settings: Settings, last: bool, now: int) -> Decision | None:
        probes = self._hold * settings.hold_intervals
        held = now - self._changed_ns >= probes * settings.interval_ns
        good = min(probes, WINDOW)
        if last:
            why = "no other plane is left"
        elif held and track.state is PathState.GOOD and track.window >= good and not track.lost_of(good):
            why = f"{good} probes in a row came back"
        else:
            return None
        self.denied, self._changed_ns = False, now
        return Decision(now, self.plane, "allowed", why, track.window, track.lost_of(track.window))


def _too_lossy(track: Track, bound: float) -> tuple[str, int, int] | None:
    """(reason, probes, lost) when the link of these T0 probes surely loses more than `bound`."""
    if track.state is PathState.DEAD:
        return "no T0 probe comes back", max(track.lost_run, DEAD_RUN), max(track.lost_run, DEAD_RUN)
    if track.state is PathState.LOSSY:
        for scale in SCALES:
            probes = min(scale, track.window)
            lost = track.lost_of(probes)
            if tail(lost, probes, bound) < _CHANCE:
                return f"more than {bound:.3g} of its T0 probes are lost", probes, lost
    return None
