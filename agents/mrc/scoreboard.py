"""What the sender knows of every packet it has sent: flying, lost, or arrived.

PSNs are unbounded integers in here (`agents.wire.psn.unwrap` at the door), so that nothing compares across the wrap at
2^24. What has not been acknowledged is one integer used as a bit mask, so that a SACK costs a few operations on whole
words plus the packets that are new in it, and never a walk over all that fly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Final

from agents.message import Message
from agents.mrc.ev_set import Ev


class Fate(Enum):
    """What became of a transmission."""

    FLYING = "flying"
    LOST = "lost"  # taken for lost; the packet waits for its retransmission, or has had it
    ARRIVED = "arrived"


# Names of the module are found quicker than members, and these are asked for often.
FLYING: Final = Fate.FLYING
LOST: Final = Fate.LOST
ARRIVED: Final = Fate.ARRIVED

_WORD_BITS: Final = 62  # what compiled code calculates with as it is
_WORD_MASK: Final = (1 << _WORD_BITS) - 1


class Sent:
    """One transmission of one packet."""

    __slots__ = (
        "blamed",
        "departs_ns",
        "earlier_ev",
        "ev",
        "fate",
        "message",
        "order",
        "overtaken",
        "psn",
        "sent_ns",
        "size",
        "transmissions",
    )

    def __init__(
        self, psn: int, message: Message, size: int, ev: Ev, sent_ns: int, order: int, before: Sent | None
    ) -> None:
        """`before`: the transmission of the same packet that was lost."""
        self.psn = psn
        self.message = message
        self.size = size  # payload bytes
        self.ev = ev
        self.sent_ns = sent_ns
        self.departs_ns = sent_ns  # when it left the port, about
        self.order = order  # counts the transmissions of its plane
        self.transmissions: int = 1 if before is None else before.transmissions + 1
        self.blamed = False  # lost, and its EV was blamed for that
        self.earlier_ev = before.ev if before is not None and before.blamed else None
        self.fate = FLYING
        self.overtaken = 0  # later transmissions over the same EV that have arrived


class Scoreboard:
    """All packets from the first unacknowledged one on."""

    def __init__(self, first_psn: int, planes: int) -> None:
        self.una = first_psn  # the first PSN that the cumulative ack does not cover
        self.bytes_in_flight = 0
        # From una on, without a gap: the latest transmission of each packet, None when it has arrived. The same as bits
        # (1: not arrived), for as many as `_known`: those behind were sent since, and none of them has arrived.
        self._latest: list[Sent | None] = []
        self._unacked = 0
        self._known = 0
        self._missing = 0  # how many have not arrived
        self._flights: list[deque[Sent]] = [deque() for _ in range(planes)]
        self._next_order = [0] * planes
        self.packet_ns = 0  # how long a packet holds a port, as far as it is known
        self._free_ns = [0] * planes  # when the port of each plane is free again

    def __len__(self) -> int:
        """Packets sent and not known to have arrived."""
        return self._missing

    def sent(self, psn: int, message: Message, size: int, ev: Ev, now: int) -> Sent:
        """Record a transmission, the first or a later one of its packet; first ones come in the order of the PSNs."""
        at = psn - self.una
        latest = self._latest
        order = self._next_order[ev.plane]
        self._next_order[ev.plane] = order + 1
        if at == len(latest):
            record = Sent(psn, message, size, ev, now, order, None)
            latest.append(record)
            self._missing += 1
        else:
            record = Sent(psn, message, size, ev, now, order, latest[at])
            latest[at] = record
        free_ns = self._free_ns[ev.plane]
        if free_ns > now:  # a NIC's queue holds about two packets, so no longer than for one
            record.departs_ns = min(free_ns, now + self.packet_ns)
        self._free_ns[ev.plane] = record.departs_ns + self.packet_ns
        self.bytes_in_flight += size
        self._flights[ev.plane].append(record)
        ev.flight.append(record)
        return record

    def acknowledge(self, cack: int, base: int, bitmap: int) -> list[Sent]:
        """Packets that are new in a report: all up to `cack`, and `base` + i for each bit i of `bitmap`.

        Their last transmissions come back, with the fate that they had until now.
        """
        una, latest = self.una, self._latest
        if len(latest) > self._known:
            self._unacked |= (1 << len(latest)) - (1 << self._known)
            self._known = len(latest)
        advance = cack + 1 - una
        arrived = (1 << advance) - 1 if advance > 0 else 0
        shift = base - una
        arrived |= bitmap << shift if shift >= 0 else bitmap >> -shift
        arrived &= self._unacked
        self._unacked ^= arrived
        records = []
        first = 0
        while arrived:  # a machine word at a time
            word = arrived & _WORD_MASK
            while word:
                lowest = word & -word
                word ^= lowest
                at = first + lowest.bit_length() - 1
                record = latest[at]
                assert record is not None
                latest[at] = None
                if record.fate is FLYING:
                    self.bytes_in_flight -= record.size
                records.append(record)
            arrived >>= _WORD_BITS
            first += _WORD_BITS
        self._missing -= len(records)
        if advance > 0:
            self.una += advance
            self._unacked >>= advance
            self._known = max(0, self._known - advance)
            del latest[:advance]
        return records

    def latest(self, psn: int) -> Sent | None:
        """The last transmission of a packet that has not arrived; None for every other PSN."""
        at = psn - self.una
        return self._latest[at] if 0 <= at < len(self._latest) else None

    def lose(self, record: Sent, *, blame: bool) -> None:
        """A flying transmission is taken for lost; `blame`: its EV had a fair chance to deliver it."""
        record.blamed = blame
        record.fate = LOST
        self.bytes_in_flight -= record.size

    def flying(self, plane: int) -> Iterator[Sent]:
        """The transmissions that fly in a plane, oldest first."""
        flight = self._flights[plane]
        while flight and flight[0].fate is not FLYING:
            flight.popleft()
        return (record for record in flight if record.fate is FLYING)

    def oldest(self, plane: int) -> Sent | None:
        """The transmission that has flown longest in a plane."""
        flight = self._flights[plane]
        while flight and flight[0].fate is not FLYING:
            flight.popleft()
        return flight[0] if flight else None
