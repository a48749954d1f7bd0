"""What can be set about a RoCE queue pair. Every time is the real fabric's, multiplied by the time dilation.

`RoceConfig.dilated` is the way to make one; the plain constructor takes times and rates as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agents.roce.dcqcn import DcqcnProfile, profile
from agents.wire.psn import MODULUS

_TIMEOUT_UNIT_NS = 4096  # IBTA 9.7.6.1.3: 4.096 us x 2^t
DEFAULT_LINK_BPS = 100_000_000_000
MAX_RETRIES = 7  # three bits
MAX_TIMEOUT_EXPONENT = 31  # five bits; 0 is "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceConfig:
    """Settings of one queue pair."""

    dcqcn: str = "published"  # name in agents.roce.dcqcn.PROFILES
    # 2^6 x 4.096 us = 262 us: the least that is more than a full queue (2 MB at 100 Gb/s) and a round trip.
    timeout_exponent: int = 6
    timeout_unit_ns: int = _TIMEOUT_UNIT_NS
    retry_count: int = MAX_RETRIES  # tries again without progress; one more, and the queue pair fails
    ack_interval_packets: int = 8  # BTH.A at least in each such packet, and in the last of a message
    start_psn: int | None = None  # None: random
    parameters: DcqcnProfile = field(default_factory=lambda: profile("published"))  # in the lab's time and rates

    def __post_init__(self) -> None:
        """Raises ValueError for numbers that cannot work."""
        if not 0 <= self.retry_count <= MAX_RETRIES:
            raise ValueError(f"retry_count is {self.retry_count}; it has to be in 0..{MAX_RETRIES}")
        if not 0 <= self.timeout_exponent <= MAX_TIMEOUT_EXPONENT:
            raise ValueError(f"timeout_exponent is {self.timeout_exponent}; it has to be in 0..{MAX_TIMEOUT_EXPONENT}")
        if self.ack_interval_packets < 1:
            raise ValueError(f"ack_interval_packets is {self.ack_interval_packets}; it has to be at least 1")
        if self.start_psn is not None and not 0 <= self.start_psn < MODULUS:
            raise ValueError(f"start_psn {self.start_psn} does not fit in 24 bits")

    @property
    def timeout_ns(self) -> int | None:
        """How long a packet may go unacknowledged; None: for ever."""
        return self.timeout_unit_ns << self.timeout_exponent if self.timeout_exponent else None

    @classmethod
    def dilated(
        cls, time_dilation: float, *, link_bps: int = DEFAULT_LINK_BPS, dcqcn: str = "published", **settings: Any
    ) -> RoceConfig:
        """The defaults for real links of `link_bps`, with every time multiplied by `time_dilation`.

        `settings` go on top. Raises ValueError for numbers that cannot work and for an unknown profile.
        """
        derived = {
            "timeout_unit_ns": round(_TIMEOUT_UNIT_NS * time_dilation),
            "parameters": profile(dcqcn).scaled(link_bps, time_dilation),
        }
        return cls(dcqcn=dcqcn, **{**derived, **settings})
