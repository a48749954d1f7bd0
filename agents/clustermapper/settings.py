"""How a host probes: the knobs of Clustermapper, and the constants of its rules with their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Policy = Literal["off", "observe", "act"]
POLICIES: tuple[str, ...] = get_args(Policy)

SHORTEST_INTERVAL_NS = 1_000_000  # the paper's rate: each link every millisecond

# A lost probe is known as lost after so many intervals (longer where round trips are), and so many lost ones in a row
# are a dead path: together less than ten intervals after the death. Of a link that loses a twentieth each way, five in
# a row are lost once in 10^5 probes, and the sixth that comes back takes the verdict back.
TIMEOUT_INTERVALS = 3
DEAD_RUN = 5

# A healthy path loses less than this: bit errors and the emulating machine's hiccups.
HEALTHY_LOSS = 0.001
# Chance that a healthy path looks lossy, all scales together. It is looked at with every lost probe.
FALSE_ALARM = 1e-5
# Chance that a lossy path shows it within the number of probes that `evidence.probes_needed` says.
POWER = 0.99
# How many times likelier it has to be that two paths lose differently than that they lose alike, before the part in
# which they differ is accused.
ODDS = 1000.0

# Probes that a verdict looks back: each of these is looked at, since a long good past would hide a new loss for long.
SCALES = (64, 128, 256, 512, 1024)
WINDOW = SCALES[-1]
RTTS = 128  # round trips kept for percentiles


@dataclass(frozen=True, slots=True)
class Settings:
    """What a lab file says about health.

    `interval_ns` between two probes of a path. `policy`: no probes; probes; probes, and planes are denied whose own
    link loses more than `loss_bound`. A denied plane stays so until the probes of `hold_intervals` have all come back,
    after a relapse of twice as many.
    """

    interval_ns: int = 50_000_000
    policy: Policy = "off"
    loss_bound: float = 0.01
    hold_intervals: int = 100

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot work."""
        if self.policy not in POLICIES:
            raise ValueError(f"no policy {self.policy!r}; there are {', '.join(POLICIES)}")
        if self.interval_ns < 1:
            raise ValueError("there has to be time between probes")
        if not HEALTHY_LOSS < self.loss_bound <= 1:
            raise ValueError(f"a loss bound of {self.loss_bound}; it has to be above {HEALTHY_LOSS}, at most 1")
        if self.hold_intervals < 1:
            raise ValueError("a denied plane has to be held for an interval at least")
