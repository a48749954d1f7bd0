"""What can be set about an MRC queue pair. Every time is the real fabric's, multiplied by the time dilation.

`MrcConfig.dilated` is the way to make one; the plain constructor takes times as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.wire.headers import TIMESTAMP_TICK_NS
from agents.wire.psn import MODULUS

# Times of the real fabric at 100 Gb/s per plane, where a 4 KB packet takes 0.34 us on a link.
BASE_RTT_NS = 12_000  # NSCC's reference round trip (UET 3.6)
_BASE_TIMES_NS = {
    "initial_rtt_ns": BASE_RTT_NS,
    "reorder_floor_ns": 1_000,  # three packets of queue: less than this late is no sign of a loss
    "rto_min_ns": 10_000,
    "probe_timeout_ns": 24_000,  # two round trips
    "port_update_interval_ns": 6_000,  # half a round trip: an unconfirmed Port Status Update goes again
    "skip_ns": 12_000,  # a round trip: by then the queue that set the mark is another one
    "tick_ns": TIMESTAMP_TICK_NS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MrcConfig:
    """Settings of one queue pair; sizes in bytes, times in ns."""

    evs_per_plane: int | None = None  # EVs in use per plane; None: every path, at most MAX_EVS in all
    ev_min_active: int = 1  # no EV is retired below this number
    retire_evs: bool = True  # False: a loss never changes an EV's state (negative control)
    congestion: str = "nscc"  # name in agents.mrc.congestion
    congestion_settings: Mapping[str, Any] = field(default_factory=dict)  # by name; for NSCC those of its profile
    window_bytes: int = 256 << 10  # for "fixed"
    plane_bdp_bytes: int = 150_000  # what a plane carries in a base round trip: 100 Gb/s for 12 us
    trimming: bool = True  # switches may cut the payload off instead of dropping a packet
    mpr: int = 1024  # PSNs beyond the cumulative ack that a responder tracks (1.0 asks for at least 1024)
    max_wimm: int = 128  # WRITEs with an immediate on their way (1.0 asks for at least 32)
    sack_threshold_bytes: int = 4 * 4096  # a SACK at least for so many new bytes
    overtaken_threshold: int = 2  # later packets of the same EV that overtake one before it counts as lost
    start_psn: int | None = None  # None: random
    linear_retries: int = 7  # timeouts with the interval growing linearly ...
    exponential_retries: int = 4  # ... and doubling; then the queue pair fails
    probes_to_restore: int = 2  # answered in a row, and a retired EV is GOOD again
    probe_interval_ns: int = 50_000_000  # between probes of a retired EV; not dilated: the lab file gives it
    initial_rtt_ns: int = _BASE_TIMES_NS["initial_rtt_ns"]
    reorder_floor_ns: int = _BASE_TIMES_NS["reorder_floor_ns"]
    rto_min_ns: int = _BASE_TIMES_NS["rto_min_ns"]
    probe_timeout_ns: int = _BASE_TIMES_NS["probe_timeout_ns"]
    port_update_interval_ns: int = _BASE_TIMES_NS["port_update_interval_ns"]
    skip_ns: int = _BASE_TIMES_NS["skip_ns"]  # an EV is SKIP so long at most
    tick_ns: int = TIMESTAMP_TICK_NS  # of the timestamps on the wire

    def __post_init__(self) -> None:
        """Raises ValueError for numbers that cannot work."""
        for name in (
            "ev_min_active",
            "window_bytes",
            "plane_bdp_bytes",
            "sack_threshold_bytes",
            "overtaken_threshold",
            "probes_to_restore",
            "max_wimm",
            "probe_interval_ns",
            "probe_timeout_ns",
            "port_update_interval_ns",
            "initial_rtt_ns",
            "rto_min_ns",
            "tick_ns",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it has to be at least 1")
        check_mpr(self.mpr)
        if self.start_psn is not None and not 0 <= self.start_psn < MODULUS:
            raise ValueError(f"start_psn {self.start_psn} does not fit in 24 bits")

    @classmethod
    def dilated(cls, time_dilation: float, **settings: Any) -> MrcConfig:
        """The defaults with every time of the real fabric multiplied by `time_dilation`; `settings` go on top."""
        times = {name: round(value_ns * time_dilation) for name, value_ns in _BASE_TIMES_NS.items()}
        return cls(**{**times, **settings})


MAX_EVS = 256  # per queue pair (paper: 128..256)
MPR_UNIT = 128
MAX_MPR = 255 * MPR_UNIT  # SETH has 8 bits for it


def check_mpr(mpr: int) -> None:
    """Raises ValueError for a number of PSNs that a SACK cannot tell."""
    if not MPR_UNIT <= mpr <= MAX_MPR or mpr % MPR_UNIT:
        raise ValueError(f"mpr is {mpr}; it has to be a multiple of {MPR_UNIT} from {MPR_UNIT} to {MAX_MPR}")
