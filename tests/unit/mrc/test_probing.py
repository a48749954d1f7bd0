"""How a retired EV comes back."""

from __future__ import annotations

from random import Random

from agents.mrc.config import MrcConfig
from agents.mrc.ev_set import Ev, EvSet
from agents.mrc.ev_state import Cause, State
from agents.mrc.probing import Prober
from agents.transport import Datagram
from agents.wire import ev as ev_format

INTERVAL = 1_000_000
READY = 0b11


class Trial:
    """Two planes with two EVs each, one of them just retired; `asked` are the EVs that were probed."""

    def __init__(self) -> None:
        evs = [[Ev(ev_format.make(plane, uplink)) for uplink in range(2)] for plane in range(2)]
        self.evs = EvSet(evs, 2, Random(1), on_change=self._changed)
        self.prober = Prober(MrcConfig(probe_interval_ns=INTERVAL), self.evs, self._send)
        self.asked: list[Ev] = []
        self.ev = evs[0][0]
        self.evs.apply(self.ev, Cause.LOST, 0)

    def _changed(self, ev: Ev, old: State, new: State, why: Cause, now: int) -> None:
        if new is State.ASSUMED_BAD:
            self.prober.retired(ev, now)
        else:
            self.prober.released(ev, now)

    def _send(self, ev: Ev, now: int) -> Datagram:
        self.asked.append(ev)
        return Datagram(ev.plane, False, ())

    def at(self, now: int, ready: int = READY) -> int:
        """Let the time be `now`; how many probes went."""
        before = len(self.asked)
        self.prober.handle_timer(now)
        while self.prober.poll(now, ready):
            pass
        return len(self.asked) - before

    def answer(self, now: int, *, marked: bool = False) -> None:
        self.prober.answered(self.ev.value, 10, marked, now)


def test_one_probe_an_interval_while_none_is_answered() -> None:
    trial = Trial()
    assert trial.prober.next_timer() == INTERVAL
    assert [trial.at(now) for now in (0, INTERVAL - 1, INTERVAL, INTERVAL + 1, 2 * INTERVAL)] == [0, 0, 1, 0, 1]
    assert trial.ev.state is State.ASSUMED_BAD


def test_the_next_one_follows_the_answer_and_two_bring_it_back() -> None:
    trial = Trial()
    trial.at(INTERVAL)
    trial.answer(INTERVAL + 10)
    assert trial.at(INTERVAL + 10) == 1
    trial.answer(INTERVAL + 20)
    assert trial.ev.state is State.GOOD and trial.ev.rtt_ns == 10
    assert trial.prober.next_timer() is None and trial.at(5 * INTERVAL) == 0


def test_answers_count_only_in_a_row() -> None:
    trial = Trial()
    trial.at(INTERVAL)
    trial.answer(INTERVAL + 10)
    trial.at(INTERVAL + 10)  # this one is lost
    assert trial.at(2 * INTERVAL + 10) == 1
    trial.answer(2 * INTERVAL + 20)
    assert trial.ev.state is State.ASSUMED_BAD


def test_marked_answers_bring_it_back_to_skip() -> None:
    trial = Trial()
    for now in (INTERVAL, INTERVAL + 10):
        trial.at(now)
        trial.answer(now + 10, marked=True)
    assert trial.ev.state is State.SKIP


def test_a_packet_that_arrived_after_all_hurries_it() -> None:
    trial = Trial()
    trial.prober.cleared(trial.ev)
    assert trial.at(1) == 1
    trial.prober.cleared(trial.ev)
    assert trial.at(2) == 0, "one is out already"


def test_a_busy_port_delays_it() -> None:
    trial = Trial()
    assert trial.at(INTERVAL, ready=0b10) == 0
    timer = trial.prober.next_timer()
    assert timer is not None and timer > INTERVAL, "no timer for what waits for a port"
    assert trial.at(INTERVAL + 1) == 1


def test_what_waits_for_a_port_is_forgotten_when_it_is_denied_or_its_plane_goes_down() -> None:
    for denied in (False, True):
        trial = Trial()
        assert trial.at(INTERVAL, ready=0b10) == 0
        if denied:
            trial.evs.apply(trial.ev, Cause.DENY, INTERVAL)
        else:
            trial.evs.set_planes_up(0b10)
        assert trial.at(INTERVAL + 1) == 0


def test_probes_are_no_closer_than_their_time_to_be_answered() -> None:
    trial = Trial()
    prober = Prober(MrcConfig(probe_interval_ns=1, probe_timeout_ns=77), trial.evs, trial._send)
    prober.retired(trial.ev, 0)
    assert prober.next_timer() == 77


def test_a_plane_that_is_down_is_not_probed() -> None:
    trial = Trial()
    trial.evs.set_planes_up(0b10)
    assert trial.at(INTERVAL) == 0
    trial.evs.set_planes_up(0b11)
    assert trial.at(INTERVAL + 1) == 0, "not all at once when the port comes up"
    assert trial.at(2 * INTERVAL) == 1


def test_a_denied_ev_is_left_alone() -> None:
    trial = Trial()
    trial.at(INTERVAL)
    trial.evs.apply(trial.ev, Cause.DENY, INTERVAL)
    trial.answer(INTERVAL + 1)
    assert trial.at(3 * INTERVAL) == 0 and trial.ev.state is State.DENIED


def bring_back(trial: Trial, now: int) -> tuple[int, int]:
    """Answer every probe from `now` on; (when the first probe went, how many answers it took)."""
    first = trial.prober.next_timer()
    assert first is not None and first > now
    now, answers = first, 0
    while trial.ev.state is State.ASSUMED_BAD:
        assert trial.at(now) == 1
        now += 1
        trial.answer(now)
        answers += 1
    return first, answers


def test_one_that_is_retired_again_soon_waits_longer_and_answers_more_up_to_a_bound() -> None:
    trial = Trial()
    now, seen = 0, []
    for _ in range(5):
        first, answers = bring_back(trial, now)
        seen.append(((first - now) // INTERVAL, answers))
        now = first + 100
        trial.evs.apply(trial.ev, Cause.LOST, now)
    assert seen == [(1, 2), (2, 4), (4, 8), (8, 16), (8, 16)]


def test_relapses_do_not_count_while_more_than_half_of_all_evs_are_retired() -> None:
    trial = Trial()
    now = 0
    for _ in range(3):
        now = bring_back(trial, now)[0] + 100
        trial.evs.apply(trial.ev, Cause.LOST, now)
    assert trial.prober.next_timer() == now + 8 * INTERVAL
    _, second, third, _ = trial.evs
    trial.evs.apply(second, Cause.LOST, now)
    assert trial.at(now + INTERVAL) == 1 and trial.asked[-1] is second, "half of them are not more than half"
    now += INTERVAL
    trial.evs.apply(third, Cause.LOST, now)
    assert trial.evs.usable() == 1 and trial.prober.next_timer() == now + INTERVAL
    assert trial.at(now + INTERVAL) == 3
    for answers in range(2):
        assert trial.ev.state is State.ASSUMED_BAD
        trial.answer(now + INTERVAL + answers)
    assert trial.ev.state is State.GOOD


def test_one_that_was_good_for_long_starts_anew() -> None:
    trial = Trial()
    now = 0
    for _ in range(2):
        first, _ = bring_back(trial, now)
        now = first + 100
        trial.evs.apply(trial.ev, Cause.LOST, now)
    first, answers = bring_back(trial, now)
    assert answers == 8
    now = first + 10 * INTERVAL
    trial.evs.apply(trial.ev, Cause.LOST, now)
    first, answers = bring_back(trial, now)
    assert (first - now, answers) == (INTERVAL, 2)


def test_one_that_was_retired_by_mistake_has_not_relapsed() -> None:
    trial = Trial()
    first, _ = bring_back(trial, 0)
    trial.evs.apply(trial.ev, Cause.LOST, first + 100)
    trial.prober.cleared(trial.ev)
    for now in (first + 100, first + 110):
        assert trial.at(now) == 1
        trial.answer(now + 5)
    assert trial.ev.state is State.GOOD
