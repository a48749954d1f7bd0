"""What a port noted of a fault: how much data it took, when, and when the port was last used; ns, 0: never.

The kernel's ports keep it in their counters (`port.bpf.c`), the simulator's in `testbed.sim.link`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PortStamps:
    """Since the port was told to forget. Data are WRITEs with their payload; use is by anything but probes of paths."""

    lost_data: int = 0  # packets that faults took
    first_lost_data_ns: int = 0
    last_lost_data_ns: int = 0
    first_drop_ns: int = 0  # of whatever
    last_use_ns: int = 0  # sent or dropped
    longest_ns: int = 0  # from the first packet of one EV of one pair of hosts that a fault took, to its last; use only
    # (source host, destination host, EV, when) of the first packet of each EV of a pair that a fault took; use only
    first_lost: tuple[tuple[int, int, int, int], ...] = ()
