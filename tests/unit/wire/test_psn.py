"""24-bit serial arithmetic against plain integers."""

from hypothesis import given
from hypothesis import strategies as st

from agents.wire import psn

psns = st.integers(0, psn.MASK)
steps = st.integers(-(1 << 23) + 1, (1 << 23) - 1)


@given(psns, steps)
def test_distance_undoes_add(start: int, step: int) -> None:
    assert psn.distance(start, psn.add(start, step)) == step


@given(st.integers(0, 1 << 60), steps)
def test_unwrap_finds_the_integer_again(near: int, step: int) -> None:
    assert psn.unwrap((near + step) % psn.MODULUS, near) == near + step


def test_the_wrap() -> None:
    assert psn.add(0xFFFFFF, 1) == 0
    assert psn.distance(0xFFFFFF, 0) == 1
    assert psn.unwrap(0, 0xFFFFFF) == 0x1000000
