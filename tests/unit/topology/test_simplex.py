"""The linear program is right when its corner keeps all rows and its prices prove that nothing better exists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topology.simplex import Simplex

Program = tuple[list[float], list[list[float]], list[float]]  # objective, rows, limits

_FACTOR = st.integers(0, 4).map(float)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Each variable is in the last row, so that there is a maximum."""
    columns, rows = draw(st.integers(1, 5)), draw(st.integers(0, 6))
    line = st.lists(st.integers(-3, 4).map(float), min_size=columns, max_size=columns)
    matrix = draw(st.lists(line, min_size=rows, max_size=rows))
    limits = draw(st.lists(_FACTOR, min_size=rows, max_size=rows))
    return draw(line), [*matrix, [1.0] * columns], [*limits, 10.0]


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


@given(programs())
def test_the_corner_is_allowed_and_the_prices_prove_it_the_best(program: Program) -> None:
    objective, rows, limits = program
    simplex = Simplex(len(objective), [dict(enumerate(row)) for row in rows], limits)
    prices = simplex.maximise(dict(enumerate(objective)))
    values = [simplex.value(column) for column in range(len(objective))]
    assert all(value >= 0 for value in values)
    assert all(dot(row, values) <= limit + 1e-6 for row, limit in zip(rows, limits, strict=True))
    # Weak duality: prices >= 0 whose columns cost at least what they earn bound every allowed corner.
    assert all(price >= 0 for price in prices)
    for column, earned in enumerate(objective):
        assert dot([row[column] for row in rows], prices) >= earned - 1e-6
    assert dot(limits, prices) == pytest.approx(dot(objective, values), abs=1e-6)


@given(programs())
def test_a_row_that_is_held_stays_at_its_limit(program: Program) -> None:
    objective, rows, limits = program
    simplex = Simplex(len(objective), [dict(enumerate(row)) for row in rows], limits)
    last = len(rows) - 1
    simplex.maximise(dict.fromkeys(range(len(objective)), 1.0))
    if sum(simplex.value(column) for column in range(len(objective))) < limits[last] - 1e-9:
        return
    simplex.hold(last)
    simplex.maximise(dict(enumerate(objective)))
    assert sum(simplex.value(column) for column in range(len(objective))) == pytest.approx(limits[last])


def test_without_a_limit_there_is_no_maximum() -> None:
    with pytest.raises(ValueError, match="no maximum"):
        Simplex(1, [{0: -1.0}], [1.0]).maximise({0: 1.0})
