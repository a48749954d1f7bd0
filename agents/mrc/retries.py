"""The retransmission timer of a sending queue pair: MRC 1.0's linear, then exponential back-off, and then failure.

One thing comes before it: when the oldest packet becomes overdue and no report says so, a reliability probe asks the
responder for one, so that a lost tail costs no timeout. The timer says what is lost; the requester sends it again.
"""

from __future__ import annotations

from agents.mrc.config import MrcConfig
from agents.mrc.ev_set import Ev
from agents.mrc.loss import LossDetector
from agents.mrc.scoreboard import Scoreboard, Sent


class RetryTimer:
    """Times in ns. `probe_wanted`: a reliability probe is due; whoever sends it clears that."""

    def __init__(self, config: MrcConfig, board: Scoreboard, detector: LossDetector, planes: int) -> None:
        self.deadline_ns: int | None = None  # when `handle` wants to be called next
        self.expired_ns = -1  # when it last expired
        self.last_report_ns = -1
        self.probe_wanted = False
        self.exhausted: str | None = None  # why no more retries are made, once that is so
        self._config = config
        self._board = board
        self._detector = detector
        self._planes = planes
        self._expiries = 0  # since the last progress
        self._granted_grace = False

    def sent(self, ev: Ev, now: int, *, again: bool) -> None:
        """A packet went over `ev`, for the first time or `again`."""
        if again and self._expiries:
            self.deadline_ns = now + self._interval_ns()
        if self.deadline_ns is None:
            self.deadline_ns = now + self._detector.patience_ns(ev) + self._config.reorder_floor_ns

    def progress(self, now: int) -> None:
        """Something new has been acknowledged, or refused by a peer that is there."""
        if not len(self._board):
            self.deadline_ns = None
            self._expiries = 0
        elif self._expiries:
            first_ns = self._first_overdue_ns()
            probed_ns = now + self._detector.rtt_ns()  # no probe sooner than a round trip after the last
            self.deadline_ns = probed_ns if first_ns is None else max(first_ns, probed_ns)
            self._expiries = 0

    def handle(self, now: int) -> list[tuple[Sent, bool]]:
        """Do what is due. Returns the transmissions that are lost, each with whether its EV is to blame."""
        deadline_ns = self.deadline_ns
        if deadline_ns is None or now < deadline_ns:
            return []
        if not len(self._board):
            self.deadline_ns = None
        elif self._expiries == 0:
            first_ns = self._first_overdue_ns()
            if first_ns is not None and first_ns > now:
                self.deadline_ns = first_ns
            else:
                self._expire(now)
        elif now - deadline_ns > self._config.reorder_floor_ns and not self._granted_grace:
            # This agent was late itself: reports may wait unread, and they come first.
            self._granted_grace = True
            self.deadline_ns = now + self._config.reorder_floor_ns
        elif self._expiries >= self._config.linear_retries + self._config.exponential_retries:
            self.exhausted = f"retries exhausted: {self._expiries} timeouts without progress"
        else:
            lost = self._timed_out(now)
            self._expire(now)
            return lost
        return []

    def _timed_out(self, now: int) -> list[tuple[Sent, bool]]:
        # Reports have come since a packet should have arrived: it is lost. None has: the peer is silent, no path is to
        # blame, and more than the oldest packet would only be more to wait for when it speaks again.
        lost = []
        oldest: Sent | None = None
        due_ns = now - self._detector.rto_ns()
        for plane in range(self._planes):
            for record in self._board.flying(plane):
                if record.sent_ns > due_ns:
                    break
                if self.last_report_ns > record.sent_ns + self._detector.patience_ns(record.ev):
                    lost.append((record, True))
                elif oldest is None or record.sent_ns < oldest.sent_ns:
                    oldest = record
        if oldest is not None:
            lost.append((oldest, False))
        return lost

    def _first_overdue_ns(self) -> int | None:
        first_ns = self._detector.first_overdue_ns()
        return None if first_ns is None else first_ns + self._config.reorder_floor_ns

    def _expire(self, now: int) -> None:
        self._granted_grace = False
        self._expiries += 1
        self.expired_ns = now
        self.probe_wanted = True
        self.deadline_ns = now + self._interval_ns()

    def _interval_ns(self) -> int:
        linear = self._config.linear_retries
        beyond = max(0, self._expiries - linear)
        return self._detector.rto_ns() * max(1, min(self._expiries, linear)) << beyond
