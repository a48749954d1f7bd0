"""The network whose switches hash flows onto paths."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from agents.wire import address, dscp, ev, frame, headers
from agents.wire.packet import Write, parse
from testbed.sim.events import EventList
from testbed.sim.hashed import HashedNetwork
from testbed.sim.link import CableSpec
from testbed.sim.network import PathContradiction
from testbed.sim.packet import SimPacket
from testbed.topology import clos
from testbed.topology.labspec import LabSpec

S = 10**9
T1S = 4


class Fabric:
    """Two racks of four hosts on one plane, hosts that only note what comes."""

    def __init__(self, **queue: object) -> None:
        spec = LabSpec.model_validate(
            {"name": "hash", "planes": 1, "t0_groups": 2, "hosts_per_t0": 4, "t1s_per_plane": T1S, "queue": queue}
        )
        self.events = EventList()
        self.network = HashedNetwork(clos.build(spec), self.events, Random(1), CableSpec())
        self.taken: list[tuple[int, bytes]] = []
        for host in range(spec.hosts):
            self.network.attach(host, lambda port, data, host=host: self.taken.append((host, data)), lambda *_: None)

    def send(self, src: int, dst: int, spare: int, *, dst_address: bytes | None = None) -> bytes:
        path = frame.PathTemplate(
            src=address.host_address(src),
            dst=dst_address or address.host_address(dst),
            usids=None,
            ev=ev.make(0, 0, spare),
        )
        data = b"".join(
            frame.write(
                path, dscp=dscp.TRIMMABLE, dest_qp=16, psn=1, opcode=headers.Opcode.WRITE_MIDDLE, msn=1, rqmsn=0,
                address=0, rkey=0, length=4096, payload=bytes(1000),
            )
        )  # fmt: skip
        self.network.send(src, 0, data)
        return data

    def run(self) -> None:
        self.events.run_to(self.events.now + S)


def test_a_packet_arrives_as_sent_but_for_its_hop_limit() -> None:
    fabric = Fabric()
    data = fabric.send(0, 5, 1)
    near = fabric.send(0, 1, 1)
    fabric.run()
    [(host, over_t1), *_] = sorted(fabric.taken, key=lambda one: -one[0])
    assert host == 5 and parse(over_t1).ev == parse(data).ev
    for sent, switches in ((data, 3), (near, 1)):
        expected = bytearray(sent)
        expected[7] -= switches
        assert bytes(expected) in [received for _, received in fabric.taken]


def test_all_packets_of_a_flow_go_one_way_and_many_flows_go_all_ways() -> None:
    fabric = Fabric()
    for _ in range(3):
        fabric.send(0, 5, 7)
    assert len(fabric.network.crossed) == 1
    for spare in range(400):
        fabric.send(0, 5, spare)
    used = Counter({t1: count for (_, t1), count in fabric.network.crossed.items()})
    assert set(used) == set(range(T1S))
    assert max(used.values()) < 1.5 * min(used.values())


def test_within_a_rack_no_t1_is_crossed() -> None:
    fabric = Fabric()
    fabric.send(0, 1, 7)
    assert list(fabric.network.crossed) == [(0, None)]


def test_a_link_that_is_down_is_left_out_while_it_is() -> None:
    fabric = Fabric()
    fabric.network.cut("p0t0-0:p0t1-2")
    for spare in range(100):
        fabric.send(0, 5, spare)
    assert set(fabric.network.crossed) == {(0, 0), (0, 1), (0, 3)}
    fabric.network.mend("p0t0-0:p0t1-2")
    fabric.network.crossed.clear()
    for spare in range(100):
        fabric.send(0, 5, spare)
    assert (0, 2) in fabric.network.crossed


def test_a_link_down_behind_the_t1_loses_that_t1s_share() -> None:
    fabric = Fabric()
    fabric.network.cut("p0t0-1:p0t1-2")
    for spare in range(200):
        fabric.send(0, 5, spare)
        fabric.run()
    assert len(fabric.taken) == 200 - fabric.network.crossed[0, 2] < 200


def test_a_packet_without_the_outer_header_can_be_trimmed() -> None:
    fabric = Fabric()
    data = fabric.send(0, 5, 1)
    packet = SimPacket(data, fabric.network._decode(0, 0, data)[0])
    assert packet.trim(last_hop=False)
    decoded = parse(packet.data)
    assert decoded.trimmed and isinstance(decoded.body, Write) and not decoded.body.payload


def test_an_address_that_is_no_hosts_is_the_senders_error() -> None:
    with pytest.raises(PathContradiction, match="no host's address"):
        Fabric().send(0, 5, 1, dst_address=bytes(16))
