"""How many bytes a queue pair may have in flight: an abstract base, and a registry by name.

NSCC (UET 3.6) takes its place behind this interface later; `fixed` is a constant window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from agents.mrc.config import MrcConfig


class CongestionControl(ABC):
    """One queue pair's window. Bytes are payload; times in ns."""

    window_bytes: int

    @abstractmethod
    def on_acked(self, size_bytes: int, rtt_ns: int | None, marked: bool, now: int) -> None:
        """A report says that so many more bytes have arrived, the last after `rtt_ns`.

        `rtt_ns` is None when only retransmitted packets are new, whose time is ambiguous.
        """

    @abstractmethod
    def on_lost(self, size_bytes: int, now: int) -> None:
        """Bytes are taken for lost."""


class FixedWindow(CongestionControl):
    """Never changes its mind."""

    def __init__(self, config: MrcConfig) -> None:
        self.window_bytes = config.window_bytes

    def on_acked(self, size_bytes: int, rtt_ns: int | None, marked: bool, now: int) -> None:
        """A fixed window learns nothing from an acknowledgement."""

    def on_lost(self, size_bytes: int, now: int) -> None:
        """Nor from a loss."""


ALGORITHMS: dict[str, Callable[[MrcConfig], CongestionControl]] = {"fixed": FixedWindow}


def create(config: MrcConfig) -> CongestionControl:
    """The algorithm that `config.congestion` names. Raises ValueError with the names there are."""
    algorithm = ALGORITHMS.get(config.congestion)
    if algorithm is None:
        raise ValueError(f"no congestion control is called {config.congestion!r}; there are: {', '.join(ALGORITHMS)}")
    return algorithm(config)
