"""corrupt, corrupt-unseen: bits flip on a link. The ICRC tells of the first; of the second only who compares all bytes.

The second flips the bits of the ICRC's own generator polynomial, so that the checksum fits again. It stands for a
machine that spoils packets between checking and making a checksum; a run that says "0 bytes wrong" has to notice.
"""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def _seen(case: Case) -> tuple[Act, ...]:
    return change_each(case.ports, ("corrupt", case.options["share"]))


def _unseen(case: Case) -> tuple[Act, ...]:
    # in this order, and undone in reverse: none is spoilt so that the ICRC would tell
    return change_each(case.ports, ("corrupt_unseen", True), ("corrupt", case.options["share"]))


SEEN = Kind(
    name="corrupt",
    doc="flips a bit in a share of the data that the ends send into a link; receivers drop it, for its ICRC is wrong",
    takes="links",
    acts=_seen,
    end="both",
    defaults={"share": 0.01},
)
UNSEEN = Kind(
    name="corrupt-unseen",
    doc="flips bits so that the ICRC is right all the same: wrong bytes are delivered, and only comparing finds them",
    takes="links",
    acts=_unseen,
    end="both",
    defaults={"share": 0.01},
)
