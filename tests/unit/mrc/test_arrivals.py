"""The receiver's bitmap, against a plain set of numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.mrc.arrivals import BLOCK, Arrival, Arrivals


def reported(arrivals: Arrivals, trigger: int) -> set[int]:
    """The PSNs that a report names, beyond cack."""
    return {
        arrivals.cack + offset + bit
        for offset, bitmap in arrivals.report(trigger)
        for bit in range(BLOCK)
        if bitmap >> bit & 1
    }


def test_in_order_moves_the_cumulative_ack() -> None:
    arrivals = Arrivals(100, 1024)
    assert [arrivals.take(psn) for psn in (100, 101, 102)] == [Arrival.NEW] * 3
    assert arrivals.cack == 102 and arrivals.count_beyond() == 0


def test_a_hole_holds_it_until_it_fills() -> None:
    arrivals = Arrivals(0, 1024)
    for psn in (0, 2, 3, 5):
        arrivals.take(psn)
    assert arrivals.cack == 0 and arrivals.count_beyond() == 3
    arrivals.take(1)
    assert arrivals.cack == 3
    arrivals.take(4)
    assert arrivals.cack == 5


def test_the_window_ends_at_cack_plus_mpr() -> None:
    arrivals = Arrivals(0, 1024)
    assert arrivals.take(1024) is Arrival.OUTSIDE
    assert arrivals.take(1023) is Arrival.NEW
    arrivals.take(0)
    assert arrivals.take(1024) is Arrival.NEW


def test_a_report_covers_the_block_of_its_trigger() -> None:
    arrivals = Arrivals(0, 1024)
    arrivals.take(200)
    assert reported(arrivals, 200) == {200}
    assert arrivals.report(200)[0][0] == 1 + 3 * BLOCK


def test_blocks_that_have_changed_are_reported_once() -> None:
    arrivals = Arrivals(0, 1024)
    for psn in (10, 100, 300):
        arrivals.take(psn)
    assert reported(arrivals, 300) == {10, 100, 300}
    arrivals.take(301)
    assert reported(arrivals, 301) == {300, 301}


def test_what_the_cumulative_ack_says_is_in_no_other_block() -> None:
    arrivals = Arrivals(0, 1024)
    for psn in (1, 0, 100):
        arrivals.take(psn)
    assert [offset for offset, _ in arrivals.report(100)] == [65]


def test_the_first_block_is_repeated_for_its_holes() -> None:
    arrivals = Arrivals(0, 1024)
    arrivals.take(5)
    arrivals.report(5)
    seen = []
    for psn in range(500, 504):
        arrivals.take(psn)
        seen.append(5 in reported(arrivals, psn))
    assert seen == [False, False, False, True]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.integers(0, 1 << 30), st.lists(st.integers(-5, 300), max_size=120), st.integers(1, 7))
def test_equals_a_set(first: int, steps: list[int], every: int) -> None:
    arrivals = Arrivals(first, 256)
    got: set[int] = set()
    cack = first - 1
    untold: set[int] = set()
    for number, step in enumerate(steps):
        psn = cack + 1 + step
        arrival = arrivals.take(psn)
        if psn <= cack or psn in got:
            assert arrival is Arrival.DUPLICATE
        elif psn > cack + 256:
            assert arrival is Arrival.OUTSIDE
        else:
            assert arrival is Arrival.NEW
            got.add(psn)
            untold.add(psn)
        while cack + 1 in got:
            cack += 1
        assert arrivals.cack == cack
        assert arrivals.count_beyond() == sum(psn > cack for psn in got)
        if number % every == 0:
            told = reported(arrivals, psn)
            assert told <= got, "nothing is reported that has not arrived"
            assert {psn for psn in untold if psn > cack} <= told, "everything is reported once at least"
            untold.clear()
