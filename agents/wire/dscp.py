"""Traffic classes and ECN of MRC packets: the eight bits of the IPv6 traffic class.

Control has strict priority and is neither trimmed nor marked; data may be. The MRC text leaves the DSCP values to
configuration; these are this project's.
"""

from __future__ import annotations

NO_TRIM = 0
TRIMMABLE = 4
TRIMMABLE_RETX = 8
TRIMMED = 12  # lost its payload in the fabric: the path was full
TRIMMED_LASTHOP = 16  # lost its payload at the last hop: the receiver was (incast)
SELF_PROBE = 20  # Clustermapper's: queued, marked and dropped as data
CONTROL = 46

TRIMMED_CLASSES = frozenset({TRIMMED, TRIMMED_LASTHOP})

# ECN, RFC 3168
NOT_ECT = 0
ECT1 = 1
ECT0 = 2
CE = 3


def traffic_class(dscp: int, *, ecn: int | None = None) -> int:
    """The traffic class byte; without `ecn`: ECT(0) on data, not-ECT on control, which no switch marks."""
    if ecn is None:
        ecn = NOT_ECT if dscp == CONTROL else ECT0
    return dscp << 2 | ecn
