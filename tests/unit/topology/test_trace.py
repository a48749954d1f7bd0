"""Where an EV leads, against the path template of the paper written out by hand."""

from __future__ import annotations

import pytest
from labs import lab

from agents.wire import ev as entropy
from testbed.topology.errors import InputError
from testbed.topology.trace import trace, traces


def test_between_racks_own_t0_then_t1_then_the_other_t0_then_the_downlink() -> None:
    got = trace(lab(), "h0", "h5", entropy.make(2, 3))
    assert got.nodes == ["h0", "p2t0-0", "p2t1-3", "p2t0-1", "h5"]
    assert got.links == ["h0:p2t0-0", "p2t0-0:p2t1-3", "p2t0-1:p2t1-3", "h5:p2t0-1"]
    # plane 2 << 13 | kind << 11 | index: T0 0, T1 3, T0 1, downlink 1
    assert got.usids == ["4800", "5003", "4801", "5801"]
    assert got.outer_address == "fcbb:bb00:4800:5003:4801:5801::"
    assert got.inner_address == "fd6d:7263::6"


def test_inside_a_rack_there_is_no_t1() -> None:
    got = trace(lab(), "h4", "h6", entropy.make(1, 2))
    assert (got.nodes, got.usids, got.t1) == (["h4", "p1t0-1", "h6"], ["2801", "3802"], None)


def test_spare_bits_change_nothing_but_the_ev() -> None:
    plain, spare = (trace(lab(), "h0", "h5", entropy.make(2, 3, spare=bits)) for bits in (0, 999))
    assert plain.as_dict() | {"ev": spare.ev} == spare.as_dict()


def test_all_paths_are_planes_times_t1s_and_inside_a_rack_planes() -> None:
    assert len({tuple(each.links) for each in traces(lab(), "h0", "h4")}) == 16
    assert len({tuple(each.links) for each in traces(lab(), "h0", "h1")}) == 4


@pytest.mark.parametrize(("src", "dst"), [("h0", "h0"), ("h0", "h9"), ("p0t0-0", "h1")])
def test_only_two_hosts_of_the_lab_have_a_path(src: str, dst: str) -> None:
    with pytest.raises(InputError):
        trace(lab(), src, dst, entropy.make(0, 0))
