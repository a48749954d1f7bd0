"""The interface of a congestion control: what a queue pair tells it, and the one number that it answers with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


class Fabric(NamedTuple):
    """What an algorithm has to know of the NIC and the network."""

    planes: int
    mtu_bytes: int  # payload of a full packet


class CongestionControl(ABC):
    """One queue pair's window. Bytes are payload; times in ns."""

    window_bytes: int

    @abstractmethod
    def on_acked(
        self, size_bytes: int, rtt_ns: int | None, *, marked: bool, penalty: int, in_flight_bytes: int, now: int
    ) -> None:
        """A report says that so many more bytes have arrived; it was caused by a packet that took `rtt_ns`.

        `rtt_ns` is None when that packet had been sent more than once, so that its time is ambiguous. `marked`: the
        report echoes a congestion mark. `penalty`: by how many 128ths the receiver wants the window to shrink.
        `in_flight_bytes`: what still flies.
        """

    @abstractmethod
    def on_trimmed(self, size_bytes: int, rtt_ns: int | None, *, in_flight_bytes: int, now: int) -> None:
        """A NACK says that the fabric had no room for so many bytes; `rtt_ns` is what the NACK took, likewise."""

    @abstractmethod
    def on_lost(self, size_bytes: int, now: int) -> None:
        """Bytes are taken for lost."""
