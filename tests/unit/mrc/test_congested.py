"""What a full fabric tells a queue pair, and what it does then: trimmed packets and congestion marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import pytest

from agents.mrc.ev_set import path_of
from agents.transport import EvChanged, PacketLost, SendCompleted
from agents.wire import dscp
from agents.wire import ev as ev_format
from agents.wire.headers import EndpointResponse, Nack, NackReason, ReliabilityProbe, Sack
from agents.wire.packet import Packet
from agents.wire.packet import Write as WriteBody
from tests.unit.mrc.scripted import ONE_WAY_NS, US, ScriptedPair, mark, trim

PACKET = 4096
CONTENT = Random(1).randbytes(64 * PACKET)
Alter = Callable[[int, Packet, bytes], bytes]


def transfer(pair: ScriptedPair) -> None:
    region = pair.nics[1].register_memory(len(CONTENT))
    pair.post(CONTENT, region)
    pair.run()
    assert bytes(region.buffer) == CONTENT and pair.of_kind(SendCompleted)


def trim_once(*numbers: int, last_hop: bool = False) -> Alter:
    """Of all WRITE packets in the order of sending, trim these."""
    counter = count()
    value = dscp.TRIMMED_LASTHOP if last_hop else dscp.TRIMMED

    def alter(host: int, packet: Packet, data: bytes) -> bytes:
        return trim(data, value) if isinstance(packet.body, WriteBody) and next(counter) in numbers else data

    return alter


def mark_once(*numbers: int) -> Alter:
    """Of all WRITE packets in the order of sending, mark these."""
    counter = count()
    return lambda host, packet, data: (
        mark(data) if isinstance(packet.body, WriteBody) and next(counter) in numbers else data
    )


class TestTrimming:
    def test_a_trimmed_packet_is_refused_and_goes_again_on_another_path(self) -> None:
        pair = ScriptedPair()
        pair.alter = trim_once(5)
        transfer(pair)
        (refusal,) = pair.sent(Nack, host=1)
        first, again = [packet for packet in pair.sent(WriteBody) if packet.psn == refusal.psn]
        assert isinstance(refusal.body, Nack)
        assert (refusal.body.reason, refusal.body.ev) == (NackReason.TRIMMED, first.ev)
        assert again.retransmission and path_of(again.ev) != path_of(first.ev)
        assert (first.dscp, again.dscp, refusal.dscp) == (dscp.TRIMMABLE, dscp.TRIMMABLE_RETX, dscp.CONTROL)

    def test_and_is_no_loss_and_retires_no_ev(self) -> None:
        pair = ScriptedPair()
        pair.alter = trim_once(*range(0, 64, 3))
        transfer(pair)
        counters = pair.qps[0].counters
        assert (counters.packets_trimmed, counters.packets_retransmitted, counters.packets_lost) == (22, 22, 0)
        assert not pair.of_kind(EvChanged) and not pair.of_kind(PacketLost) and not pair.sent(ReliabilityProbe)

    def test_at_once(self) -> None:
        pair = ScriptedPair()
        pair.alter = trim_once(5)
        region = pair.nics[1].register_memory(len(CONTENT))
        pair.post(CONTENT, region)
        pair.run(2 * ONE_WAY_NS)
        assert pair.qps[0].counters.packets_retransmitted == 1

    @pytest.mark.parametrize(("last_hop", "skipped"), [(False, 1), (True, 0)])
    def test_only_in_the_core_it_is_the_paths_fault(self, last_hop: bool, skipped: int) -> None:
        pair = ScriptedPair()
        pair.alter = trim_once(5, last_hop=last_hop)
        transfer(pair)
        assert pair.qps[0].counters.evs_skipped == skipped
        assert pair.qps[0].counters.packets_trimmed == 1

    def test_again_and_again_until_there_is_room(self) -> None:
        pair = ScriptedPair()
        pair.alter = lambda host, packet, data: (
            trim(data) if isinstance(packet.body, WriteBody) and pair.now < 300 * US else data
        )
        transfer(pair)
        assert pair.qps[0].counters.packets_trimmed > 64 and pair.qps[0].counters.packets_lost == 0

    def test_one_that_had_arrived_before_is_reported_and_not_asked_for_again(self) -> None:
        pair = ScriptedPair()
        transfer(pair)
        sent = pair.sent(WriteBody)
        before = len(pair.sent(Sack, host=1))
        sent[0].dscp = dscp.TRIMMED
        pair.qps[1].receive(0, sent[0], pair.now)
        pair.run()
        assert not pair.sent(Nack, host=1) and len(pair.sent(Sack, host=1)) == before + 1

    def test_a_refusal_of_an_earlier_transmission_changes_nothing(self) -> None:
        pair = ScriptedPair()
        pair.alter = trim_once(5)
        pair.rule = lambda host, packet: [ONE_WAY_NS, 9 * ONE_WAY_NS] if isinstance(packet.body, Nack) else [ONE_WAY_NS]
        transfer(pair)
        assert pair.qps[0].counters.packets_retransmitted == 1

    def test_of_packets_that_were_never_sent_is_refused(self) -> None:
        pair = ScriptedPair(start_psn=0)
        assert not pair.qps[0]._requester.on_nack(Nack(NackReason.TRIMMED, 5, 0), 0)


class TestMarks:
    def test_are_echoed_at_once_on_the_ev_that_met_them(self) -> None:
        pair = ScriptedPair(sack_threshold_bytes=1 << 30)
        pair.alter = mark_once(5)
        transfer(pair)
        marked = pair.sent(WriteBody)[5]
        echoes = [packet.body for packet in pair.sent(Sack, host=1) if packet.body.ecn_echo]  # type: ignore[union-attr]
        assert [(echo.ev, echo.ecn_echo) for echo in echoes] == [(marked.ev, 1)]  # type: ignore[union-attr]

    def test_each_ev_of_a_batch_hears_of_its_own(self) -> None:
        pair = ScriptedPair(planes=2, t1s=4)  # all that is sent in one go arrives in one go
        pair.alter = mark_once(*range(8))
        transfer(pair)
        echoed = Counter(packet.body.ev for packet in pair.sent(Sack, host=1) if packet.body.ecn_echo)  # type: ignore[union-attr]
        assert set(echoed) == {packet.ev for packet in pair.sent(WriteBody)[:8]}
        assert pair.qps[0].counters.evs_skipped == 8

    def test_skip_the_evs_next_turn(self) -> None:
        """Every packet of one path is marked: it is used in every second round, and the others in all."""
        pair = ScriptedPair(planes=2, t1s=4, congestion="fixed", window_bytes=8 * PACKET)
        slow = path_of(ev_format.make(0, 1))
        pair.alter = lambda host, packet, data: (
            mark(data) if isinstance(packet.body, WriteBody) and path_of(packet.ev) == slow else data
        )
        for _ in range(8):
            transfer(pair)
        shares = Counter(path_of(packet.ev) for packet in pair.sent(WriteBody))
        others = [shares[path] for path in shares if path != slow]
        assert 0.4 * min(others) < shares[slow] < 0.7 * min(others)
        assert max(others) < 1.1 * min(others)

    def test_change_no_state_that_lasts(self) -> None:
        pair = ScriptedPair()
        pair.alter = lambda host, packet, data: mark(data) if isinstance(packet.body, WriteBody) else data
        transfer(pair)
        assert not pair.of_kind(EvChanged)
        assert pair.qps[0].counters.packets_sent == 64
        pair.alter = lambda host, packet, data: data
        transfer(pair)
        assert set(pair.qps[0].ev_counts()) == {"GOOD"}

    def test_met_by_a_reliability_probe_are_echoed_too(self) -> None:
        pair = ScriptedPair()
        pair.rule = lambda host, packet: [] if isinstance(packet.body, WriteBody) else [ONE_WAY_NS]
        pair.alter = lambda host, packet, data: mark(data) if isinstance(packet.body, ReliabilityProbe) else data
        region = pair.nics[1].register_memory(PACKET)
        pair.post(CONTENT[:PACKET], region)
        pair.run(50 * US)
        probe = pair.sent(ReliabilityProbe)[0]
        answer = pair.sent(Sack, host=1)[0].body
        assert isinstance(answer, Sack) and isinstance(probe.body, ReliabilityProbe)
        assert (answer.probe_id, answer.ev, answer.ecn_echo) == (probe.body.probe_id, probe.ev, 1)

    def test_met_by_an_ev_probe_bring_its_ev_back_as_skip(self) -> None:
        pair = ScriptedPair()
        lost: list[int] = []

        def rule(host: int, packet: Packet) -> list[int]:
            if isinstance(packet.body, WriteBody) and not lost:
                lost.append(packet.ev)
                return []
            return [ONE_WAY_NS]

        pair.rule = rule
        pair.alter = lambda host, packet, data: data if isinstance(packet.body, WriteBody) else mark(data)
        transfer(pair)
        changes: list[Any] = [(event.ev, event.old, event.new) for event in pair.of_kind(EvChanged)]
        assert changes == [(lost[0], "GOOD", "ASSUMED_BAD"), (lost[0], "ASSUMED_BAD", "SKIP")]
        assert pair.sent(EndpointResponse, host=1)
