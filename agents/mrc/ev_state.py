"""The states of an entropy value, as one table (names of `mrc_ctl.h`; SKIP is the specification's transient state).

GOOD carries traffic. SKIP lets its next turn in the rotation pass. ASSUMED_BAD lost a packet and is only probed.
DENIED is the controller's: nothing that happens on the wire changes it. What is not in the table changes nothing.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """What the load balancer makes of an EV."""

    GOOD = "GOOD"
    SKIP = "SKIP"
    ASSUMED_BAD = "ASSUMED_BAD"
    DENIED = "DENIED"


class Cause(Enum):
    """What can happen to an EV; the values are the words of the events."""

    MARKED = "a congestion mark came back"  # SETH.M = 1, or a trimmed packet not cut at the last hop
    PASSED = "the rotation passed it once"
    SKIPPED_LONG = "it has been SKIP for long enough"
    LOST = "a packet on it was lost"
    ALWAYS_SKIP = "the peer asked never to use it"  # SETH.M = 2
    PROBED = "its probes were answered"
    PROBED_MARKED = "its probes were answered, with congestion marks"
    CLEARED = "the packet on it had arrived after all"
    DENY = "denied by the controller"
    ALLOW = "allowed by the controller"


USABLE = frozenset({State.GOOD, State.SKIP})  # these hold slots in the rotation

TRANSITIONS: dict[tuple[State, Cause], State] = {
    (State.GOOD, Cause.MARKED): State.SKIP,
    (State.SKIP, Cause.PASSED): State.GOOD,
    (State.SKIP, Cause.SKIPPED_LONG): State.GOOD,
    (State.GOOD, Cause.LOST): State.ASSUMED_BAD,
    (State.SKIP, Cause.LOST): State.ASSUMED_BAD,
    (State.GOOD, Cause.ALWAYS_SKIP): State.ASSUMED_BAD,
    (State.SKIP, Cause.ALWAYS_SKIP): State.ASSUMED_BAD,
    (State.ASSUMED_BAD, Cause.PROBED): State.GOOD,
    (State.ASSUMED_BAD, Cause.PROBED_MARKED): State.SKIP,
    (State.ASSUMED_BAD, Cause.CLEARED): State.SKIP,  # it came so late that its path is a full one
    (State.GOOD, Cause.DENY): State.DENIED,
    (State.SKIP, Cause.DENY): State.DENIED,
    (State.ASSUMED_BAD, Cause.DENY): State.DENIED,
    (State.DENIED, Cause.ALLOW): State.GOOD,
}


def after(state: State, cause: Cause) -> State:
    """The state that follows; the same one when the table has no row."""
    return TRANSITIONS.get((state, cause), state)
