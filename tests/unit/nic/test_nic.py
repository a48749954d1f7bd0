"""The NIC: paths, dispatch, what it refuses, endpoint operations, fairness between queue pairs."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.nic import Nic
from agents.nic_config import NicConfig
from agents.transport import ProbeAnswered, Write
from agents.wire import address, ev, frame
from agents.wire.headers import (
    CONTROL_BODIES,
    ENDPOINT_QP,
    ControlBody,
    EndpointRequest,
    EndpointResponse,
    Opcode,
    TransportAck,
)
from agents.wire.packet import REASONS, parse
from tests.unit.mrc.scripted import ONE_WAY_NS, US, ScriptedPair
from tests.unit.wire.packets import bodies

CONTENT = Random(1).randbytes(64 * 4096)
SHAPE = {"planes": 4, "t0_groups": 2, "hosts_per_t0": 4, "t1s_per_plane": 4}


def nic(host: int = 0) -> Nic:
    return Nic(NicConfig(host=host, **SHAPE), Random(host))


def usids(data: bytes) -> tuple[int, ...]:
    return address.address_usids(data[24:40])


class TestPaths:
    def test_each_ev_leads_over_the_t1_that_it_names(self) -> None:
        for peer in (1, 6):
            sender = nic()
            queue_pair = sender.create_qp(peer)
            sender.connect(queue_pair.qpn, 99, 0)
            queue_pair.post(Write(0, memoryview(CONTENT), 0, 0))
            for datagram in sender.datagrams_to_send(0):
                data = b"".join(datagram.buffers)
                value = parse(data).ev
                t1 = None if peer == 1 else ev.uplink_of(value)
                assert usids(data) == address.path_usids(ev.plane_of(value), 0, t1, peer // 4, peer % 4)
                assert datagram.port == ev.plane_of(value)

    def test_the_same_seed_makes_the_same_nic(self) -> None:
        first, second = (Nic(NicConfig(host=0, **SHAPE), Random(5)).create_qp(4) for _ in range(2))
        assert first.ev_map() == second.ev_map() and first.start_psn == second.start_psn

    @pytest.mark.parametrize(("peer", "message"), [(8, "not one of 0..7"), (-1, "not one of"), (0, "is this host")])
    def test_no_queue_pair_to_nowhere(self, peer: int, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            nic().create_qp(peer)

    def test_no_nic_outside_the_fabric(self) -> None:
        with pytest.raises(ValueError, match=r"host 8 is not one of 0\.\.7"):
            NicConfig(host=8, **SHAPE)

    def test_unknown_transport(self) -> None:
        with pytest.raises(ValueError, match="no transport is called 'tcp'"):
            nic().create_qp(1, transport="tcp")


class TestRefusals:
    def packet(self, *, src: int = 4, dst: int = 0, qp: int = 16, plane: int = 0, uplink: int = 0) -> bytes:
        value = ev.make(plane, uplink)
        path = frame.PathTemplate(
            src=address.host_address(src), dst=address.host_address(dst), usids=(1 << 11,), ev=value
        )
        return b"".join(frame.control(path, dest_qp=qp, psn=0, opcode=Opcode.TRANSPORT_ACK, body=TransportAck(0)))

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"dst": 1}, "not-ours"),
            ({"qp": 17}, "no-such-qp"),
            ({"src": 5}, "stranger"),
            ({"src": 8, "qp": 2}, "stranger"),  # the first that the fabric does not have
            ({"plane": 1}, "ev"),
            ({"uplink": 4}, "ev"),
            ({"qp": 2}, "endpoint"),
        ],
    )
    def test_counted_by_reason(self, changes: dict[str, int], reason: str) -> None:
        receiver = nic()
        assert receiver.create_qp(4).qpn == 16
        receiver.receive(0, self.packet(**changes), 0)
        assert receiver.errors == {reason: 1}

    def test_bytes_that_are_no_packet(self) -> None:
        receiver = nic()
        receiver.receive(0, b"", 0)
        damaged = bytearray(self.packet())
        damaged[-1] ^= 1
        receiver.receive(0, bytes(damaged), 0)
        assert receiver.errors == {"short": 1, "icrc": 1}

    def test_a_queue_pair_that_is_gone(self) -> None:
        receiver = nic()
        receiver.destroy_qp(receiver.create_qp(4).qpn)
        receiver.receive(0, self.packet(), 0)
        assert receiver.errors == {"no-such-qp": 1}
        with pytest.raises(KeyError):
            receiver.destroy_qp(16)

    def test_noise_raises_nothing_and_what_arrives_is_right(self) -> None:
        pair = ScriptedPair()
        region = pair.nics[1].register_memory(len(CONTENT))
        rng = Random(3)
        noise: list[bytes] = []
        pair.post(CONTENT, region)
        lost_on_the_way = islice(pair.nics[0].datagrams_to_send(0), 20)
        for datagram in lost_on_the_way:
            data = bytearray(b"".join(datagram.buffers))
            for _ in range(200):
                mutant = bytearray(data)
                mutant[rng.randrange(150)] ^= 1 << rng.randrange(8)
                noise.append(bytes(mutant))
        for mutant_bytes in noise:
            pair.nics[1].receive(rng.randrange(2), mutant_bytes, 0)
        assert pair.nics[1].errors["icrc"] > 1000
        pair.run()
        assert bytes(region.buffer) == CONTENT


OPCODES = {kind: opcode for opcode, kind in CONTROL_BODIES.items()}
well_formed = st.tuples(
    st.integers(0, 1), bodies, st.sampled_from([ENDPOINT_QP, 16]), st.integers(-80, 80) | st.integers(0, 0xFFFFFF)
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(well_formed, max_size=30))
def test_whatever_the_peer_says_nothing_breaks(said: list[tuple[int, ControlBody, int, int]]) -> None:
    pair = ScriptedPair(start_psn=0)
    region = pair.nics[1].register_memory(len(CONTENT))
    pair.post(CONTENT, region)
    pair.run(2 * US)
    for host, body, dest_qp, number in said:
        src, dst = address.host_address(1 - host), address.host_address(host)
        path = frame.PathTemplate(src=src, dst=dst, usids=(1 << 11,), ev=ev.make(1, 2))
        data = b"".join(
            frame.control(path, dest_qp=dest_qp, psn=number & 0xFFFFFF, opcode=OPCODES[type(body)], body=body)
        )
        pair.nics[host].receive(1, data, pair.now)
        pair.run(1 * US)
    pair.run(200 * US)
    assert not pair.nics[0].errors.keys() & REASONS.keys(), "they were well-formed"


class TestProbes:
    @pytest.mark.parametrize("same_rack", [False, True])
    def test_answered_over_the_same_path_on_the_control_class(self, same_rack: bool) -> None:
        pair = ScriptedPair(planes=4, same_rack=same_rack)
        wanted = {pair.nics[0].probe(1, ev.make(plane, 0, 77), 0): ev.make(plane, 0, 77) for plane in range(4)}
        pair.run()
        answers = pair.of_kind(ProbeAnswered)
        assert {event.probe_id: event.ev for event in answers} == wanted
        assert {event.rtt_ns for event in answers} == {2 * ONE_WAY_NS}
        asked, answered = pair.sent(EndpointRequest), pair.sent(EndpointResponse, host=1)
        assert [packet.ev for packet in asked] == [packet.ev for packet in answered]
        assert {packet.dscp for packet in asked} == {0} and {packet.dscp for packet in answered} == {46}

    def test_not_answered_over_a_dead_path(self) -> None:
        pair = ScriptedPair()
        pair.rule = lambda host, packet: []
        pair.nics[0].probe(1, ev.make(0, 0), 0)
        pair.run()
        assert not pair.of_kind(ProbeAnswered)

    def test_waits_for_its_port(self) -> None:
        sender = nic()
        sender.set_port_ready(2, False)
        sender.probe(4, ev.make(2, 0), 0)
        assert list(sender.datagrams_to_send(0)) == []
        sender.set_port_ready(2, True)
        assert [datagram.port for datagram in sender.datagrams_to_send(0)] == [2]

    @pytest.mark.parametrize(("peer", "value"), [(4, ev.make(4, 0)), (4, ev.make(0, 4)), (1, ev.make(0, 1)), (9, 0)])
    def test_no_such_path(self, peer: int, value: int) -> None:
        with pytest.raises(ValueError, match=r"names no path|is not one of"):
            nic().probe(peer, value, 0)


def test_queue_pairs_take_turns() -> None:
    sender = nic()
    for peer in (4, 5, 6):
        queue_pair = sender.create_qp(peer)
        sender.connect(queue_pair.qpn, 100 + peer, 0)
        queue_pair.post(Write(0, memoryview(CONTENT), 0, 0))
    drawn = [parse(b"".join(datagram.buffers)).dest_qp for datagram in islice(sender.datagrams_to_send(0), 60)]
    assert set(Counter(drawn).values()) == {20}


def test_the_driver_may_stop_a_port_between_two_packets() -> None:
    sender = nic()
    queue_pair = sender.create_qp(4)
    sender.connect(queue_pair.qpn, 100, 0)
    queue_pair.post(Write(0, memoryview(CONTENT), 0, 0))
    ports: list[int] = []
    for datagram in sender.datagrams_to_send(0):
        ports.append(datagram.port)
        sender.set_port_ready(datagram.port, False)
    assert sorted(ports) == [0, 1, 2, 3], "each port took one, and no more was made for it"


def test_a_port_that_was_down_before_is_not_used_by_a_new_queue_pair() -> None:
    pair = ScriptedPair(planes=2)
    pair.nics[0].set_port_up(0, False, 0)
    late = pair.nics[0].create_qp(1)
    assert late.planes_up == 0b10 == pair.qps[0].planes_up
    pair.run(100 * US)
    assert pair.nics[0].ports_up == 0b10 and pair.qps[1].planes_up == 0b10
