"""Packets go where their uSIDs say, and uSIDs that contradict the EV are an error.

h0 - T0 0 -- T1 0..2 -- T0 1 - h2, h3   (two planes, two hosts a rack)
"""

import random
from typing import Any

import pytest

from agents.wire import address, dscp, ev, frame
from agents.wire.headers import Opcode, ReliabilityProbe
from testbed.sim.events import EventList
from testbed.sim.link import CableSpec
from testbed.sim.network import PathContradiction, SimNetwork
from testbed.topology import clos
from testbed.topology.labspec import LabSpec


class Lab:
    """The network with hosts that only write down what they get."""

    def __init__(self) -> None:
        self.clos = clos.build(LabSpec(name="net", planes=2, t0_groups=2, hosts_per_t0=2, t1s_per_plane=3))
        self.events = EventList()
        self.network = SimNetwork(self.clos, self.events, random.Random(1), CableSpec())
        self.received: list[tuple[int, int, bytes]] = []
        self.carrier: list[tuple[int, int, bool]] = []
        for host in range(4):
            self.network.attach(
                host,
                lambda port, data, host=host: self.received.append((host, port, data)),  # type: ignore[misc]
                lambda port, up, host=host: self.carrier.append((host, port, up)),  # type: ignore[misc]
            )

    def send(self, src: int, dst: int, plane: int, t1: int, **changes: Any) -> bytes:
        """A probe packet over that path, with `changes`; what was sent."""
        usids = self.clos.path_usids(src, dst, plane, t1)
        fields: dict[str, Any] = {"src": address.host_address(src), "dst": address.host_address(dst)}
        path = frame.PathTemplate(**fields | {"usids": usids, "ev": ev.make(plane, t1)} | changes)
        buffers = frame.control(
            path, dest_qp=2, psn=0, opcode=Opcode.RELIABILITY_PROBE, body=ReliabilityProbe(1), dscp=dscp.NO_TRIM
        )
        data = b"".join(buffers)
        self.network.send(src, plane, data)
        return data

    def finish(self) -> None:
        while self.events.do_next_event():
            pass


def test_every_pair_over_every_path() -> None:
    lab = Lab()
    expected = []
    for src in range(4):
        for dst in range(4):
            for plane in range(2):
                for t1 in range(3):
                    if src != dst:
                        lab.send(src, dst, plane, t1)
                        expected.append((dst, plane))
    lab.finish()
    assert sorted((host, port) for host, port, _ in lab.received) == sorted(expected)
    assert lab.network.crossed[0, 2] == 8  # ordered pairs of hosts in different racks
    assert lab.network.crossed[1, None] == 12  # ordered pairs in one rack, for each T1 that does not matter


def test_the_far_host_sees_only_its_downlink_and_a_lower_hop_limit() -> None:
    lab = Lab()
    sent = lab.send(0, 3, 1, 2)
    lab.finish()
    ((host, port, data),) = lab.received
    assert (host, port) == (3, 1)
    assert data[24:40] == address.sid_address(address.DEFAULT_BLOCK, address.usid(1, address.Kind.DOWNLINK, 1))
    assert data[7] == sent[7] - 3
    assert (data[:7], data[8:24], data[40:]) == (sent[:7], sent[8:24], sent[40:])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ev": ev.make(0, 1)}, "means T1 1"),
        ({"ev": ev.make(1, 2)}, "port 0, but EV"),
        ({"usids": address.path_usids(1, 0, 2, 1, 1)}, "port 0, but EV"),
        ({"usids": address.path_usids(0, 1, 2, 0, 1)}, "not on the T0"),
        ({"usids": address.path_usids(0, 0, 2, 1, 1)[:2]}, "no way through"),
    ],
)
def test_an_address_that_is_not_the_way_of_the_ev_is_an_error(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(PathContradiction, match=says):
        Lab().send(0, 3, 0, 2, **changes)


def test_a_silent_link_loses_both_ways_and_only_its_own_path() -> None:
    lab = Lab()
    lab.network.silence("p0t0-1:p0t1-2")
    for t1 in range(3):
        lab.send(0, 3, 0, t1)
        lab.send(3, 0, 0, t1)
    lab.finish()
    assert sorted(host for host, _, _ in lab.received) == [0, 0, 3, 3]
    lab.network.unsilence("p0t0-1:p0t1-2")
    lab.network.silence("p0t0-1:p0t1-2", down=False)  # what goes up from T0 1 is lost: 3 to 0
    lab.send(0, 3, 0, 2)
    lab.send(3, 0, 0, 2)
    lab.finish()
    assert sorted(host for host, _, _ in lab.received) == [0, 0, 3, 3, 3]
    assert lab.carrier == []


def test_a_cut_nic_link_is_seen_by_its_host_alone() -> None:
    lab = Lab()
    lab.network.cut("h3:p1t0-1")
    lab.send(0, 3, 1, 0)
    lab.send(0, 2, 1, 0)
    lab.finish()
    lab.network.mend("h3:p1t0-1")
    lab.send(0, 3, 1, 0)
    lab.finish()
    assert [host for host, _, _ in lab.received] == [2, 3]
    assert lab.carrier == [(3, 1, False), (3, 1, True)]
