"""Names that people type: found in either order, refused with the nearest one."""

from __future__ import annotations

import pytest
from labs import lab

from agents.wire import ev as entropy
from testbed.topology.errors import InputError
from testbed.topology.select import EvPath, find_ev_path, find_host, find_link, find_node


def test_a_link_is_found_from_either_end() -> None:
    assert find_link(lab(), "p0t0-1:p0t1-3").name == find_link(lab(), "p0t1-3:p0t0-1").name == "p0t0-1:p0t1-3"
    assert find_link(lab(), "p2t0-0:h3").a.node == "h3"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("p0t0-1:p0t1-9", "did you mean 'p0t0-1:p0t1-"),
        ("p0t1-3:p0t0-7", "did you mean 'p0t0-"),
        ("p0to-1:p0t1-3", "did you mean 'p0t0-1:p0t1-3'?"),
        ("h3-p2t0-0", "did you mean 'h3:p2t0-0'?"),
        ("wire", "a link is named by its ends, like 'h0:p0t0-0'"),
    ],
)
def test_a_link_that_is_not_there_gets_the_nearest(typed: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        find_link(lab(), typed)
    assert refused.value.what == f"lab test has no link {typed!r}"
    assert refused.value.hint.startswith(hint)


def test_nodes_and_hosts() -> None:
    assert find_node(lab(), "p3t1-2").kind == "t1"
    assert find_host(lab(), "h7").index == 7
    with pytest.raises(InputError, match=r"no node 'p3t1-4'; did you mean 'p3t1-\d'"):
        find_node(lab(), "p3t1-4")
    with pytest.raises(InputError, match="nodes are h0 to h7, p0t0-0 to p3t0-1, p0t1-0 to p3t1-3"):
        find_node(lab(), "zebra")
    with pytest.raises(InputError, match="'p0t0-0' is not a host of lab test; hosts are h0 to h7"):
        find_host(lab(), "p0t0-0")


def test_an_ev_names_a_plane_and_a_t1() -> None:
    ev = entropy.make(2, 3, spare=77)
    assert find_ev_path(lab(), ev) == EvPath(ev, 2, 3)


@pytest.mark.parametrize("ev", [entropy.make(4, 0), entropy.make(0, 4), -1, 1 << 32])
def test_an_ev_that_leads_nowhere_is_refused(ev: int) -> None:
    with pytest.raises(InputError):
        find_ev_path(lab(), ev)


def test_the_near_ev_of_the_hint_is_a_right_one() -> None:
    with pytest.raises(InputError) as refused:
        find_ev_path(lab(), entropy.make(7, 200))
    assert find_ev_path(lab(), int(refused.value.hint.split()[-1], 16)).plane == 3
