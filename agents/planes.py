"""Which planes a NIC uses: those whose port has carrier, but the ones that Clustermapper's policy has denied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agents.clustermapper.prober import Prober
from agents.transport import PlaneDecided
from agents.wire.headers import ENDPOINT_QP


class Planes:
    """The planes of one NIC; `in_use` has bit p for plane p. What changes it is told by `changes`."""

    def __init__(self, planes: int, prober: Prober) -> None:
        self.in_use = self._carrier = (1 << planes) - 1
        self._planes = planes
        self._prober = prober
        self._decided: list[PlaneDecided] = []

    def set_carrier(self, port: int, up: bool, now: int) -> None:
        """A port regained or lost its carrier."""
        if bool(self._carrier >> port & 1) != up:
            self._carrier ^= 1 << port
            self._prober.set_port_up(port, up, now)

    def decide(self, needed: Sequence[int], now: int) -> None:
        """Let the policy look at the planes; `needed`: for each peer the planes that it has up."""
        for one in self._prober.decide(self._carrier, needed, now):
            self._decided.append(PlaneDecided(ENDPOINT_QP, now, one.plane, one.action, one.why, one.probes, one.lost))

    def changes(self) -> Iterator[tuple[int, bool]]:
        """(port, whether it is in use now) for each that changes; `in_use` follows."""
        changed = self.in_use ^ (self._carrier & ~self._prober.denied)
        for port in range(self._planes) if changed else ():
            if changed >> port & 1:
                self.in_use ^= 1 << port
                yield port, bool(self.in_use >> port & 1)

    def events(self) -> list[PlaneDecided]:
        """Drain the decisions."""
        decided, self._decided = self._decided, []
        return decided
