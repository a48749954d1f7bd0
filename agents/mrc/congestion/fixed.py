"""A window that stays as it is: the baseline that the others are held against."""

from __future__ import annotations

from agents.mrc.config import MrcConfig
from agents.mrc.congestion.base import CongestionControl, Fabric


class FixedWindow(CongestionControl):
    """Never changes its mind; `config.window_bytes` in all."""

    def __init__(self, config: MrcConfig, fabric: Fabric) -> None:
        """Raises ValueError for settings, of which it has none."""
        if config.congestion_settings:
            raise ValueError(f"the fixed window has no setting {', '.join(config.congestion_settings)}")
        self.window_bytes = config.window_bytes

    def on_acked(
        self, size_bytes: int, rtt_ns: int | None, *, marked: bool, penalty: int, in_flight_bytes: int, now: int
    ) -> None:
        """A fixed window learns nothing from an acknowledgement."""

    def on_trimmed(self, size_bytes: int, rtt_ns: int | None, *, in_flight_bytes: int, now: int) -> None:
        """Nor from a trimmed packet."""

    def on_lost(self, size_bytes: int, now: int) -> None:
        """Nor from a loss."""
