"""Packets that were taken for lost, and what shows that one of them has arrived after all.

A verdict of `loss` can be wrong: where a path's queue grows fast, a packet may be later than any before it. Its EV is
out of use then, its traffic is on the other paths of the plane, and makes them late. So the proof is looked for [ours].
A report names the packet that caused it by PSN and EV, and two things prove that the lost transmission has arrived:

- a report that it caused itself, and
- one that its retransmission caused though the responder had the packet already. It had, if the packet shows in an
  earlier report. Reports overtake each other, but each says how many bytes had come when it was made.
"""

from __future__ import annotations

from agents.mrc.ev_set import Ev
from agents.mrc.scoreboard import Sent
from agents.wire.headers import Sack

_MOST = 64  # verdicts whose proof is still looked for
_RECEIVED_MASK = (1 << 24) - 1  # of SACK's count of received bytes, which wraps ...
_RECEIVED_HALF = 1 << 23  # ... so that a difference beyond this is a negative one


class Doubts:
    """The verdicts of one queue pair that can still turn out to be wrong. PSNs are unbounded integers."""

    def __init__(self) -> None:
        self._evs: dict[int, Ev] = {}  # by PSN, the oldest first
        self._told: dict[int, int] = {}  # by PSN: the count of bytes in the first report that the packet is there

    def blamed(self, record: Sent) -> None:
        """The first transmission of a packet was taken for lost, and its EV was blamed."""
        self._evs[record.psn] = record.ev
        if len(self._evs) > _MOST:
            self.settle(next(iter(self._evs)))

    def reported(self, news: list[Sent], trigger: int | None, sack: Sack) -> Ev | None:
        """A report with news of these packets, caused by the PSN `trigger`: the EV of a verdict that it disproves."""
        if not self._evs:
            return None
        doubted = None
        if trigger is not None:
            ev = self._evs.get(trigger)
            told = self._told.get(trigger)
            if ev is not None and (ev.value == sack.ev or (told is not None and _later(sack.rcvd_bytes_256, told))):
                self.settle(trigger)
                doubted = ev
        for record in news:
            if record.psn in self._evs:
                self._told[record.psn] = sack.rcvd_bytes_256
        return doubted

    def settle(self, psn: int) -> None:
        """Of the packet of this PSN all is known that ever will be."""
        self._evs.pop(psn, None)
        self._told.pop(psn, None)

    def any_on(self, ev: Ev) -> bool:
        """Whether there is a verdict on this EV that may still be right."""
        return ev in self._evs.values()


def _later(received: int, than: int) -> bool:
    return 0 < (received - than & _RECEIVED_MASK) < _RECEIVED_HALF
