"""Two queue pairs over a scripted wire: what goes out when, what is sent again, which paths are used."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from agents.mrc.ev_set import path_of
from agents.transport import (
    EvChanged,
    ImmediateReceived,
    PacketLost,
    PortChanged,
    QpFailed,
    QpStateError,
    SendCompleted,
    Write,
)
from agents.wire import ev as ev_format
from agents.wire.headers import EndpointRequest, Nack
from agents.wire.packet import Packet
from agents.wire.packet import Write as WriteBody
from tests.unit.mrc.scripted import (
    CONTENT,
    ONE_WAY_NS,
    PACKET,
    US,
    ScriptedPair,
    dead_plane,
    lose_once,
    transfer,
    transfer_again,
    unequal_paths,
)


@pytest.mark.parametrize("size", [0, 1, 3, PACKET - 1, PACKET, PACKET + 1, 10 * PACKET + 5])
def test_any_size_arrives(size: int) -> None:
    transfer(ScriptedPair(), size)


@pytest.mark.parametrize("start_psn", [0, 2**24 - 1, 2**24 - 33])
def test_psn_wraps(start_psn: int) -> None:
    pair = ScriptedPair(start_psn=start_psn)
    for _ in range(3):
        transfer_again(pair)
    assert pair.qps[1].counters.packets_received == 3 * 64


def test_without_faults_nothing_is_sent_twice_and_no_state_changes() -> None:
    pair = ScriptedPair(planes=4)
    transfer(pair)
    assert pair.qps[0].counters.packets_sent == 64
    assert not pair.of_kind(PacketLost) and not pair.of_kind(EvChanged)


def test_every_path_carries_its_share() -> None:
    pair = ScriptedPair(planes=4, t1s=4)
    transfer(pair)
    shares = Counter(path_of(packet.ev) for packet in pair.sent(WriteBody))
    assert len(shares) == 16 and set(shares.values()) == {4}


def test_inside_one_rack_there_is_one_path_per_plane() -> None:
    pair = ScriptedPair(planes=4, same_rack=True)
    transfer(pair)
    assert set(Counter(path_of(packet.ev) for packet in pair.sent(WriteBody)).values()) == {16}


def test_reordering_is_not_loss() -> None:
    pair = ScriptedPair(seed=3)
    pair.rule = unequal_paths(3)
    for _ in range(10):
        transfer_again(pair)
    assert pair.qps[0].counters.packets_lost == 0


def test_duplicates_are_counted_and_written_once() -> None:
    pair = ScriptedPair()
    pair.rule = lambda host, packet: [ONE_WAY_NS, 2 * ONE_WAY_NS]
    transfer(pair)
    assert pair.qps[1].counters.packets_duplicate == 64
    assert pair.qps[1].counters.bytes_received == len(CONTENT)


def test_a_late_copy_of_an_old_packet_writes_nothing() -> None:
    pair = ScriptedPair()
    region = pair.nics[1].register_memory(PACKET)
    pair.rule = lambda host, packet: [ONE_WAY_NS, 500 * US]
    pair.post(CONTENT[:PACKET], region)
    pair.run(100 * US)
    region.buffer[:] = bytes(PACKET)
    pair.run()
    assert pair.qps[1].counters.packets_duplicate == 1 and not any(region.buffer)


class TestPorts:
    def busy(self) -> ScriptedPair:
        """A pair in the middle of a transfer."""
        pair = ScriptedPair(planes=2)
        self.region = pair.nics[1].register_memory(len(CONTENT))
        pair.post(CONTENT, self.region)
        pair.run(2 * US)
        return pair

    def test_own_port_down_moves_everything_at_once(self) -> None:
        pair = self.busy()
        sent = len(pair.seen)
        pair.nics[0].set_port_up(0, False, pair.now)
        pair.run()
        assert bytes(self.region.buffer) == CONTENT
        assert {event.cause for event in pair.of_kind(PacketLost)} == {"port-down"}
        assert not pair.of_kind(EvChanged)
        assert {ev_format.plane_of(packet.ev) for _, packet in pair.seen[sent:]} == {1}

    def test_what_had_arrived_before_its_port_went_down_teaches_nothing(self) -> None:
        pair = self.busy()
        sent = pair.qps[0].counters.packets_sent
        pair.nics[0].set_port_ready(1, False)  # so that nothing goes again before the reports come
        pair.nics[0].set_port_up(0, False, pair.now)
        pair.run(5 * US)
        assert pair.of_kind(PacketLost) and pair.qps[0].idle
        assert pair.qps[0].counters.packets_sent == sent
        assert patience_ns(pair) == pytest.approx(patience_ns(undisturbed()))

    @pytest.mark.parametrize("lost_updates", [0, 3])
    def test_the_peer_is_told_until_it_confirms(self, lost_updates: int) -> None:
        pair = self.busy()
        plane_0_dead = dead_plane(0)
        left = [lost_updates]

        def rule(host: int, packet: Packet) -> list[int]:
            if isinstance(packet.body, EndpointRequest) and left[0]:
                left[0] -= 1
                return []
            return plane_0_dead(host, packet)

        pair.rule = rule
        pair.nics[1].set_port_up(0, False, pair.now)
        pair.run()
        assert bytes(self.region.buffer) == CONTENT
        assert [(e.port, e.up, e.end) for e in pair.of_kind(PortChanged)] == [(0, False, "peer")]
        assert not pair.of_kind(EvChanged), "an EV is not bad because a port is down"
        assert pair.nics[1].next_timer() is None, "confirmed, so no more updates"

    def test_up_again_uses_all_planes_again(self) -> None:
        pair = self.busy()
        for up in (False, True):
            pair.nics[1].set_port_up(1, up, pair.now)
            pair.run()
        before = len(pair.sent(WriteBody))
        transfer_again(pair)
        planes = Counter(ev_format.plane_of(packet.ev) for packet in pair.sent(WriteBody)[before:])
        assert abs(planes[0] - planes[1]) <= 4

    def test_all_ports_down_and_up(self) -> None:
        pair = self.busy()
        for up in (False, True):
            for port in range(2):
                pair.nics[0].set_port_up(port, up, pair.now)
            pair.run(100 * US)
        pair.run()
        assert bytes(self.region.buffer) == CONTENT and not pair.of_kind(QpFailed)


def undisturbed() -> ScriptedPair:
    """A pair after a transfer without faults."""
    pair = ScriptedPair(planes=2)
    transfer(pair)
    return pair


def patience_ns(pair: ScriptedPair) -> int:
    """How long the sender would wait for a packet on plane 0 at most."""
    detector = pair.qps[0]._requester._detector
    return max(detector.patience_ns(ev) for ev in pair.qps[0]._evs if ev.plane == 0)


class TestWindow:
    def test_no_more_flies_than_the_window(self) -> None:
        pair = ScriptedPair(congestion="fixed", window_bytes=10 * PACKET)
        pair.rule = lambda host, packet: []
        pair.post(CONTENT, pair.nics[1].register_memory(len(CONTENT)))
        pair.run(1)
        assert len(pair.sent(WriteBody)) == 10

    def test_no_psn_beyond_what_the_responder_tracks(self) -> None:
        pair = ScriptedPair(congestion="fixed", window_bytes=1 << 30, mpr=128)
        pair.rule = lose_once(0)
        region = pair.nics[1].register_memory(4 * len(CONTENT))
        pair.post(4 * CONTENT, region)
        pair.run()
        assert bytes(region.buffer) == 4 * CONTENT
        assert not pair.sent(Nack, host=1) and pair.qps[1].refused == {}

    def test_busy_ports_hold_back_data_and_not_reports(self) -> None:
        pair = ScriptedPair(planes=2)
        for nic in pair.nics:
            for port in range(2):
                nic.set_port_ready(port, nic is pair.nics[0])
        transfer(pair)


def test_immediates_come_in_the_order_of_sending() -> None:
    pair = ScriptedPair(seed=5)
    region = pair.nics[1].register_memory(len(CONTENT))
    pair.rule = unequal_paths(5)
    sizes = [Random(2).randrange(3 * PACKET) for _ in range(20)]
    for number, size in enumerate(sizes):
        pair.post(CONTENT[:size], region, immediate=number, wr_id=number)
    pair.run()
    received = [(event.immediate, event.byte_count) for event in pair.of_kind(ImmediateReceived, host=1)]
    assert received == list(enumerate(sizes))
    assert [event.wr_id for event in pair.of_kind(SendCompleted)] == list(range(20))


def test_wrong_rkey_writes_nothing_and_ends_the_sender() -> None:
    pair = ScriptedPair()
    region = pair.nics[1].register_memory(PACKET)
    pair.qps[0].post(Write(1, memoryview(CONTENT[:PACKET]), region.address, region.rkey ^ 1))
    pair.run()
    assert not any(region.buffer) and pair.qps[1].refused["access"] == 1
    assert not pair.of_kind(SendCompleted)
    (failed,) = pair.of_kind(QpFailed)
    assert "refused" in failed.why


@pytest.mark.parametrize("offset", [-1, 1])
def test_beyond_the_region_writes_nothing(offset: int) -> None:
    pair = ScriptedPair()
    region = pair.nics[1].register_memory(PACKET)
    pair.post(CONTENT[:PACKET], region, offset=offset)
    pair.run()
    assert not any(region.buffer) and pair.qps[1].refused["access"] == 1


def test_an_unconnected_queue_pair_neither_sends_nor_takes() -> None:
    pair = ScriptedPair()
    lonely = pair.nics[0].create_qp(1)
    with pytest.raises(QpStateError, match="is not connected"):
        lonely.post(Write(1, memoryview(b"x"), 0, 0))


def test_denied_evs_are_not_used_and_not_probed() -> None:
    pair = ScriptedPair()
    denied = pair.qps[0].ev_map()[0].ev
    pair.qps[0].deny(denied, 0)
    transfer(pair)
    assert denied not in {packet.ev for packet in pair.sent(WriteBody) + pair.sent(EndpointRequest)}
    pair.qps[0].allow(denied, pair.now)
    transfer_again(pair)
    assert denied in {packet.ev for packet in pair.sent(WriteBody)}


def test_no_more_immediates_fly_than_the_peer_has_room_for() -> None:
    pair = ScriptedPair(max_wimm=4)
    region = pair.nics[1].register_memory(PACKET)
    for number in range(10):
        pair.post(CONTENT[:100], region, immediate=number, wr_id=number)
    pair.run(1)
    assert len(pair.sent(WriteBody)) == 4
    pair.run()
    assert [event.immediate for event in pair.of_kind(ImmediateReceived, host=1)] == list(range(10))
    assert not pair.sent(Nack, host=1)


def test_a_window_that_shrinks_in_mid_flight_costs_only_a_repetition() -> None:
    pair = ScriptedPair(planes=4, mpr=1024, start_psn=0)
    pair.rule = lose_once(0)
    size = 8 * len(CONTENT)
    region = pair.nics[1].register_memory(size)
    pair.post(8 * CONTENT, region)
    pair.run(1)
    pair.qps[1].set_mpr(128)
    pair.run()
    assert bytes(region.buffer) == 8 * CONTENT and pair.qps[0].idle
    assert pair.sent(Nack, host=1) and {event.cause for event in pair.of_kind(PacketLost)} >= {"refused"}
    assert len(pair.of_kind(EvChanged)) <= 2, "of the one packet that was lost"


def test_a_receivers_penalty_shrinks_the_senders_window() -> None:
    windows = {}
    for penalty in (0, 64):
        pair = ScriptedPair()
        pair.qps[1].set_receiver_penalty(penalty)
        transfer(pair)
        windows[penalty] = pair.qps[0]._requester._window.window_bytes
    assert windows[64] < windows[0] / 2
