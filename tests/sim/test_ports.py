"""A plane is lost at a NIC port, seen there by its carrier: both ends leave the plane at once, and return at once."""

import pytest

from agents.transport import EvChanged
from testbed.sim.pair import MS, US, Pair


@pytest.mark.parametrize("ends", ["a", "b", "ab"])
@pytest.mark.parametrize("planes", [2, 4])
def test_a_port_that_goes_down_costs_only_its_plane(ends: str, planes: int) -> None:
    pair = Pair(seed=planes, planes=planes)
    hosts = [getattr(pair, end) for end in ends]
    for host in hosts:
        pair.after(25 * US, lambda host=host: pair.cut_port(host, plane=1))  # type: ignore[misc]
    pair.transfer([4 << 20])
    assert not [event for event in pair.log if isinstance(event, EvChanged)], "a port that is down is no path's fault"
    before = list(pair.qp_b.bytes_received_by_port)
    pair.transfer([4 << 20])
    moved = [now - then for now, then in zip(pair.qp_b.bytes_received_by_port, before, strict=True)]
    assert moved[1] == 0
    others = [share for plane, share in enumerate(moved) if plane != 1]
    assert max(others) < 1.1 * min(others)

    for host in hosts:
        pair.mend_port(host, plane=1)
    pair.wait(1 * MS)
    before = list(pair.qp_b.bytes_received_by_port)
    pair.transfer([4 << 20])
    moved = [now - then for now, then in zip(pair.qp_b.bytes_received_by_port, before, strict=True)]
    assert max(moved) < 1.1 * min(moved), "the plane carries its share again"


def test_different_planes_down_at_the_two_ends() -> None:
    pair = Pair(seed=1, planes=3)
    pair.after(20 * US, lambda: pair.cut_port(pair.a, plane=0))
    pair.after(21 * US, lambda: pair.cut_port(pair.b, plane=1))
    pair.transfers({pair.a: [1 << 20], pair.b: [1 << 20]})


def test_flapping_ports_while_both_ends_write() -> None:
    pair = Pair(seed=2, planes=2, loss=0.001)
    for flap in range(10):
        host, plane = (pair.a, pair.b)[flap % 2], flap // 2 % 2
        pair.after((20 + 60 * flap) * US, lambda host=host, plane=plane: pair.cut_port(host, plane))  # type: ignore[misc]
        pair.after((50 + 60 * flap) * US, lambda host=host, plane=plane: pair.mend_port(host, plane))  # type: ignore[misc]
    pair.transfers({pair.a: [1 << 20] * 8, pair.b: [1 << 20] * 8})


def test_all_ports_down_for_a_while() -> None:
    """Nothing can be sent at all; when the carrier is back, the rest goes through without a new connection."""
    pair = Pair(seed=3, planes=2)
    for plane in range(2):
        pair.after(20 * US, lambda plane=plane: pair.cut_port(pair.a, plane))  # type: ignore[misc]
        pair.after(120 * US, lambda plane=plane: pair.mend_port(pair.a, plane))  # type: ignore[misc]
    pair.transfer([2 << 20])
