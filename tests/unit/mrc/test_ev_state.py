"""The transition table of EVs, row by row, against the list of rows in the specification as it reads there."""

import pytest

from agents.mrc.ev_state import TRANSITIONS, USABLE, Cause, State, after

GOOD, SKIP, BAD, DENIED = State.GOOD, State.SKIP, State.ASSUMED_BAD, State.DENIED

ROWS = [
    (GOOD, Cause.MARKED, SKIP),
    (SKIP, Cause.PASSED, GOOD),
    (SKIP, Cause.SKIPPED_LONG, GOOD),
    (GOOD, Cause.LOST, BAD),
    (SKIP, Cause.LOST, BAD),
    (GOOD, Cause.ALWAYS_SKIP, BAD),
    (SKIP, Cause.ALWAYS_SKIP, BAD),
    (BAD, Cause.PROBED, GOOD),
    (BAD, Cause.PROBED_MARKED, SKIP),
    (BAD, Cause.CLEARED, SKIP),
    (GOOD, Cause.DENY, DENIED),
    (SKIP, Cause.DENY, DENIED),
    (BAD, Cause.DENY, DENIED),
    (DENIED, Cause.ALLOW, GOOD),
]


@pytest.mark.parametrize(("old", "cause", "new"), ROWS)
def test_row(old: State, cause: Cause, new: State) -> None:
    assert after(old, cause) is new


def test_nothing_else_changes_a_state() -> None:
    rows = {(old, cause) for old, cause, _ in ROWS}
    assert set(TRANSITIONS) == rows
    for state in State:
        for cause in Cause:
            assert (after(state, cause) is state) == ((state, cause) not in rows)


def test_only_the_controller_denies_and_allows() -> None:
    assert {cause for (old, cause), new in TRANSITIONS.items() if DENIED in (old, new)} == {Cause.DENY, Cause.ALLOW}


def test_usable_states() -> None:
    assert {GOOD, SKIP} == USABLE
