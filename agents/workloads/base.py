"""What a workload is to whoever drives it: it posts WRITEs on queue pairs, and takes their events.

Like the transports it has no clock: `now` is handed in, in ns, and `next_timer` says when it wants to be woken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from agents.transport import Event


class Workload(ABC):
    """One side of a traffic pattern."""

    qpn: int  # its queue pair; of several the first

    @abstractmethod
    def on_event(self, event: Event, now: int) -> None:
        """Take an event of one of its queue pairs."""

    @abstractmethod
    def next_timer(self) -> int | None:
        """When `handle_timer` wants to be called next, in ns; None for not before an event."""

    @abstractmethod
    def handle_timer(self, now: int) -> None:
        """Do what is due at `now`."""

    @abstractmethod
    def stop(self, now: int) -> None:
        """Begin nothing new; what is under way is finished."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Nothing of this side is under way, and nothing will begin."""

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """What this side has done so far, in counts, bytes and ns."""
