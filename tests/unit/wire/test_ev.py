"""EVs name their path and survive the headers that carry them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire import ev


@given(st.integers(0, 7), st.integers(0, 255), st.integers(0, ev.MAX_SPARE))
def test_an_ev_says_its_path_and_comes_back_from_the_headers(plane: int, uplink: int, spare: int) -> None:
    value = ev.make(plane, uplink, spare)
    assert (ev.plane_of(value), ev.uplink_of(value)) == (plane, uplink)
    assert ev.from_headers(ev.flow_label(value), ev.source_port(value)) == value
    assert ev.source_port(value) >= 0xC000


@given(st.tuples(st.integers(0, 7), st.integers(0, 255), st.integers(0, ev.MAX_SPARE)), st.data())
def test_evs_are_distinct(one: tuple[int, int, int], data: st.DataObject) -> None:
    other = data.draw(st.tuples(st.integers(0, 7), st.integers(0, 255), st.integers(0, ev.MAX_SPARE)))
    assert (ev.make(*one) == ev.make(*other)) == (one == other)


@pytest.mark.parametrize("bad", [(8, 0, 0), (0, 256, 0), (0, 0, ev.MAX_SPARE + 1), (-1, 0, 0)])
def test_what_does_not_fit_is_refused(bad: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="no EV"):
        ev.make(*bad)
