"""Who sends to whom."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.workloads.matrix import incast, permutation

RACKS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@given(st.integers(2, 100), st.integers(0, 1000))
def test_in_a_permutation_everybody_sends_once_receives_once_and_never_to_itself(hosts: int, seed: int) -> None:
    pairs = permutation(hosts, Random(seed))
    assert [src for src, _ in pairs] == list(range(hosts))
    assert sorted(dst for _, dst in pairs) == list(range(hosts))
    assert all(src != dst for src, dst in pairs)
    assert pairs == permutation(hosts, Random(seed))


def test_an_incast_comes_from_other_racks_in_turns_and_the_victim_is_a_neighbour_of_the_target() -> None:
    flows, victim = incast(RACKS, target=1, senders=5)
    assert flows == [(4, 1), (8, 1), (5, 1), (9, 1), (6, 1)]
    assert victim == (10, 0)


@pytest.mark.parametrize(("racks", "target", "senders"), [(RACKS, 1, 8), (RACKS, 1, 0), ([[0], [1, 2, 3]], 0, 1)])
def test_too_few_hosts_are_refused(racks: list[list[int]], target: int, senders: int) -> None:
    with pytest.raises(ValueError, match="needs"):
        incast(racks, target, senders)


def test_nobody_and_nowhere() -> None:
    with pytest.raises(ValueError, match="no rack has host 99"):
        incast(RACKS, 99, 2)
    with pytest.raises(ValueError, match="at least"):
        permutation(1, Random(1))
