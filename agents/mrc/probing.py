"""Background probes that bring retired EVs back (paper, section 3): enough answers in a row, and an EV is GOOD again.

A retired EV is probed once an interval. When it turns out that a packet on it had arrived after all, its first probe
goes at once, and so does each next one after an answer.

A path that loses a part of its packets answers probes too, and would come and go all the time [ours]: an EV that is
retired again soon after it came back has to wait twice as long, and to answer twice as many, up to 8 times. Not while
more than half of the EVs are retired: when every path loses a little, no other is better, and all of them are needed.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.mrc.config import MrcConfig
from agents.mrc.ev_set import Ev, EvSet
from agents.mrc.ev_state import Cause
from agents.transport import Datagram

_MOST_RELAPSES = 3
_SOON = 4  # intervals after it came back


class _Trial:
    """A retired EV on its way back."""

    __slots__ = ("answered", "cleared", "due_ns", "ev", "relapses", "unanswered")

    def __init__(self, ev: Ev, due_ns: int, relapses: int) -> None:
        self.ev = ev
        self.due_ns = due_ns  # of the next probe
        self.relapses = relapses  # waits and answers are doubled so often
        self.answered = 0  # probes in a row
        self.unanswered = False  # a probe is out
        self.cleared = False  # it was retired by mistake


class Prober:
    """The retired EVs of one queue pair."""

    def __init__(self, config: MrcConfig, evs: EvSet, send: Callable[[Ev, int], Datagram]) -> None:
        """`send` makes the probe of an EV; its answer is to come to `answered`."""
        self._evs = evs
        self._send = send
        self._interval_ns = max(config.probe_interval_ns, config.probe_timeout_ns)
        self._needed = config.probes_to_restore
        self._total = sum(1 for _ in evs)
        self._trials: dict[int, _Trial] = {}  # by EV
        self._history: dict[int, tuple[int, int]] = {}  # by EV: relapses so far, and when it came back
        self.waiting: dict[int, _Trial] = {}  # due, and gone as soon as their port is ready
        self._next_ns: int | None = None

    def retired(self, ev: Ev, now: int) -> None:
        """An EV became ASSUMED_BAD."""
        relapses = 0
        before = self._history.pop(ev.value, None)
        if before is not None and now - before[1] < _SOON * self._interval_ns:
            relapses = min(before[0] + 1, _MOST_RELAPSES)
        self._trials[ev.value] = _Trial(ev, now + (self._interval_ns << relapses), relapses)
        if self._scarce:
            soon_ns = now + self._interval_ns
            for trial in self._trials.values():
                trial.due_ns = min(trial.due_ns, soon_ns)
        self._reschedule()

    def released(self, ev: Ev, now: int) -> None:
        """An EV is ASSUMED_BAD no more."""
        trial = self._trials.pop(ev.value, None)
        if trial is not None and not trial.cleared:
            self._history[ev.value] = trial.relapses, now
        self.waiting.pop(ev.value, None)
        self._reschedule()

    def cleared(self, ev: Ev) -> None:
        """A packet on it arrived after all: it was no relapse, and hurry."""
        trial = self._trials.get(ev.value)
        if trial is not None:
            trial.relapses = 0
            trial.cleared = True
            if not trial.unanswered:
                self.waiting[ev.value] = trial

    def answered(self, value: int, rtt_ns: int, marked: bool, now: int) -> None:
        """A probe of this EV came back; its round trip is the first thing known of the path as it is now."""
        trial = self._trials.get(value)
        if trial is None:
            return
        trial.ev.rtt_ns = trial.ev.srtt_ns = rtt_ns
        trial.answered += 1
        trial.unanswered = False
        if trial.answered < self._needed << self._relapses(trial):
            self.waiting[value] = trial
        else:
            self._evs.apply(trial.ev, Cause.PROBED_MARKED if marked else Cause.PROBED, now)

    def next_timer(self) -> int | None:
        """When a probe is due next."""
        return self._next_ns

    def handle_timer(self, now: int) -> None:
        """See which probes are due; they go when their ports are ready."""
        if self._next_ns is None or now < self._next_ns:
            return
        for trial in self._trials.values():
            if trial.due_ns <= now:
                trial.due_ns = now + (self._interval_ns << self._relapses(trial))
                if self._evs.up_mask >> trial.ev.plane & 1:
                    self.waiting[trial.ev.value] = trial
        self._reschedule()

    def poll(self, now: int, ready: int) -> Datagram | None:
        """The next probe that waits for a port of the bit mask `ready`, or None."""
        ready &= self._evs.up_mask
        for trial in self.waiting.values():
            if ready >> trial.ev.plane & 1:
                break
        else:
            return None
        del self.waiting[trial.ev.value]
        if trial.unanswered:
            trial.answered = 0  # the last one never came back
        trial.unanswered = True
        trial.due_ns = now + (self._interval_ns << self._relapses(trial))
        self._reschedule()
        return self._send(trial.ev, now)

    @property
    def _scarce(self) -> bool:
        return 2 * len(self._trials) > self._total

    def _relapses(self, trial: _Trial) -> int:
        return 0 if self._scarce else trial.relapses

    def _reschedule(self) -> None:
        self._next_ns = min((trial.due_ns for trial in self._trials.values()), default=None)
