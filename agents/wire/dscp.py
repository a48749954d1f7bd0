"""Traffic classes and ECN of MRC packets: the eight bits of the IPv6 traffic class.

Control has strict priority and is neither trimmed nor marked; data may be. The MRC text leaves the DSCP values to
configuration; these are this project's.
"""

from __future__ import annotations

from typing import Final

NO_TRIM: Final = 0
TRIMMABLE: Final = 4
TRIMMABLE_RETX: Final = 8
TRIMMED: Final = 12  # lost its payload in the fabric: the path was full
TRIMMED_LASTHOP: Final = 16  # lost its payload at the last hop: the receiver was (incast)
SELF_PROBE: Final = 20  # Clustermapper's: queued, marked and dropped as data
CONTROL: Final = 46

TRIMMED_CLASSES = frozenset({TRIMMED, TRIMMED_LASTHOP})

# ECN, RFC 3168
NOT_ECT: Final = 0
ECT1: Final = 1
ECT0: Final = 2
CE: Final = 3


def traffic_class(dscp: int, *, ecn: int | None = None) -> int:
    """The traffic class byte; without `ecn`: ECT(0) on data, not-ECT on control, which no switch marks."""
    if ecn is None:
        ecn = NOT_ECT if dscp == CONTROL else ECT0
    return dscp << 2 | ecn
