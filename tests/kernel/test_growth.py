"""Twice the hosts and twice the links: what a unit of each step's work costs does not grow with the lab."""

from __future__ import annotations

import pytest

from testbed.bench import growth

pytestmark = [pytest.mark.kernel, pytest.mark.full, pytest.mark.timeout(300)]

_TRIES = 3  # others on the machine only ever make a step slower: the best of a few counts
_MOST = 2.0  # an algorithm that goes through all nodes for each node would come to 4 with four times the hosts


def test_no_step_grows_faster_than_its_work() -> None:
    sizes = [growth.spec(groups) for groups in (2, 8)]
    best = [
        {step: min(one[step] for one in tries) for step in growth.UNITS}
        for tries in ([growth.costs(spec) for _ in range(_TRIES)] for spec in sizes)
    ]
    assert {step: value for step, value in growth.growth(best).items() if value > _MOST} == {}
