"""A queue pair that loses packets or reports: what is sent again when, and which path is blamed."""

from __future__ import annotations

from collections import Counter
from itertools import count, pairwise
from typing import Any

import pytest

from agents.mrc.ev_set import path_of
from agents.mrc.requester import Requester
from agents.transport import (
    EvChanged,
    PacketLost,
    QpFailed,
    QpStateError,
)
from agents.wire import ev as ev_format
from agents.wire.headers import EndpointRequest, Nack, NackReason, ReliabilityProbe, Sack
from agents.wire.packet import Packet
from agents.wire.packet import Write as WriteBody
from tests.unit.mrc.scripted import (
    CONTENT,
    ONE_WAY_NS,
    PACKET,
    US,
    ScriptedPair,
    dead_path,
    lose_once,
    on_time,
    transfer,
    transfer_again,
    trim,
)


class Heard:
    """Stands between a queue pair and its window, and keeps the round trips that the window is told."""

    def __init__(self, pair: ScriptedPair) -> None:
        requester: Any = pair.qps[0]._requester
        self.window = requester._window
        self.round_trips_ns: list[int | None] = []
        requester._window = self

    def __getattr__(self, name: str) -> Any:
        def call(size_bytes: int, rtt_ns: int | None, **more: Any) -> None:
            self.round_trips_ns.append(rtt_ns)
            getattr(self.window, name)(size_bytes, rtt_ns, **more)

        return call if name in ("on_acked", "on_trimmed") else getattr(self.window, name)


class TestRoundTrips:
    """Never from a packet that was sent twice."""

    def test_of_a_lost_packet(self) -> None:
        pair = ScriptedPair()
        heard = Heard(pair)
        lose = lose_once(5)
        pair.rule = lambda host, packet: [
            9 * ONE_WAY_NS if isinstance(packet.body, WriteBody) and packet.retransmission else delay
            for delay in lose(host, packet)
        ]
        transfer(pair)
        assert set(heard.round_trips_ns) == {2 * ONE_WAY_NS, None}

    def test_of_one_that_is_trimmed_twice(self) -> None:
        pair = ScriptedPair()
        heard = Heard(pair)
        pair.alter = lambda host, packet, data: (
            trim(data) if isinstance(packet.body, WriteBody) and pair.now < 3 * ONE_WAY_NS else data
        )
        transfer(pair, PACKET)
        assert heard.round_trips_ns == [2 * ONE_WAY_NS, None, None]


class TestLoss:
    def test_one_lost_packet_goes_again_on_another_path(self) -> None:
        pair = ScriptedPair()
        pair.rule = lose_once(5)
        transfer(pair)
        (lost,) = pair.of_kind(PacketLost)
        (again,) = [packet for packet in pair.sent(WriteBody) if packet.retransmission]
        assert again.psn == lost.psn and path_of(again.ev) != path_of(lost.ev)
        assert pair.qps[0].counters.packets_retransmitted == 1

    def test_a_retransmission_never_takes_the_path_that_lost_it_when_there_is_another(self) -> None:
        pair = ScriptedPair(planes=1, t1s=2, retire_evs=False)
        pair.rule = dead_path(0, 0)
        transfer(pair)
        again = [packet for packet in pair.sent(WriteBody) if packet.retransmission]
        assert len(again) == 32 and {path_of(packet.ev) for packet in again} == {1}

    def test_and_is_reported_at_once(self) -> None:
        pair = ScriptedPair()
        pair.rule = lose_once(5)
        transfer(pair)
        assert not pair.sent(ReliabilityProbe), "no timer is needed"

    @pytest.mark.parametrize("late_ns", [2 * ONE_WAY_NS, 1_000 * US])
    def test_what_arrives_after_all_clears_the_path_at_once(self, late_ns: int) -> None:
        pair = ScriptedPair(probe_interval_ns=10**9)
        transfer_again(pair)
        serial = count()
        pair.rule = lambda host, packet: [
            late_ns if isinstance(packet.body, WriteBody) and next(serial) == 20 else ONE_WAY_NS
        ]
        transfer_again(pair)
        bad, good = pair.of_kind(EvChanged)
        assert (bad.new, good.new) == ("ASSUMED_BAD", "SKIP")
        assert good.now_ns - bad.now_ns < late_ns + 4 * ONE_WAY_NS, "without waiting for probes"
        requester: Any = pair.qps[0]._requester
        assert requester._detector._stretch > 1, "more patient after a mistake"

    def test_a_report_that_was_overtaken_condemns_nobody(self) -> None:
        pair = ScriptedPair(planes=1, t1s=2, start_psn=0, congestion="fixed", window_bytes=1 << 20)
        region = pair.nics[1].register_memory(2 * len(CONTENT))
        pair.rule = lambda host, packet: []
        pair.post(2 * CONTENT, region)
        pair.run(1)
        evs = {packet.psn: packet.ev for packet in pair.sent(WriteBody)}
        hole = next(psn for psn in evs if psn > 1 and evs[psn] != evs[1])
        later = [psn for psn in evs if psn > 64 and evs[psn] == evs[hole]]
        requester = pair.qps[0]._requester
        bitmap = sum(1 << psn - 65 for psn in later[:2])
        requester.on_sack(Sack(evs[later[0]], 0, bitmap, sack_offset=65), 6 * US)
        requester.on_sack(Sack(0, 0xFFFFFF, 0, sack_offset=1), 6 * US)
        requester.judge()
        assert requester._counters.packets_lost == 0
        requester.on_sack(Sack(0, 0, 0, sack_offset=1), 6 * US)
        requester.judge()
        assert requester._counters.packets_lost > 0

    def test_what_arrived_while_it_waited_does_not_go_again_when_the_window_shrinks(self) -> None:
        pair = ScriptedPair(start_psn=0, mpr=1024, congestion="fixed", window_bytes=1 << 30)
        pair.rule = lambda host, packet: []
        pair.post(4 * CONTENT, pair.nics[1].register_memory(4 * len(CONTENT)))
        pair.run(1)
        evs = {packet.psn: packet.ev for packet in pair.sent(WriteBody)}
        requester, arrived, outside = pair.qps[0]._requester, 5, 200
        for number in (outside, arrived):  # in this order they wait
            requester.on_nack(Nack(NackReason.NO_RESOURCE, number, evs[number]), US)
        requester.on_sack(Sack(evs[arrived], 0, 1 << arrived - 1, sack_offset=1, mpr=128), 2 * US)
        assert requester.poll(2 * US, 0b11) is None

    def test_its_ev_is_retired_at_once_and_comes_back_by_probes(self) -> None:
        pair = ScriptedPair()
        pair.rule = lose_once(5)
        transfer(pair)
        (lost,) = pair.of_kind(PacketLost)
        changes = [(event.ev, event.old, event.new) for event in pair.of_kind(EvChanged)]
        assert changes == [(lost.ev, "GOOD", "ASSUMED_BAD"), (lost.ev, "ASSUMED_BAD", "GOOD")]
        assert len(pair.sent(EndpointRequest)) == 2

    def test_a_lost_tail_is_found_by_a_probe_before_any_timeout(self) -> None:
        pair = ScriptedPair()
        pair.rule = lose_once(63)
        transfer(pair)
        assert [event.cause for event in pair.of_kind(PacketLost)] == ["overdue"]
        assert len(pair.sent(ReliabilityProbe)) == 1

    def test_lost_reports_cost_no_retransmission(self) -> None:
        pair = ScriptedPair()
        count = iter(range(1 << 30))
        pair.rule = lambda host, packet: [] if isinstance(packet.body, Sack) and next(count) % 2 else [ONE_WAY_NS]
        transfer(pair)
        assert pair.qps[0].counters.packets_sent == 64

    def test_reports_that_come_late_for_lost_ones_spoil_no_round_trip_time(self) -> None:
        pair = ScriptedPair(planes=2)
        transfer(pair)
        pair.rule = lambda host, packet: [] if isinstance(packet.body, Sack) else [ONE_WAY_NS]
        region = pair.nics[1].register_memory(len(CONTENT))
        pair.post(CONTENT, region)
        pair.run(100 * US)
        pair.rule = on_time
        pair.run()
        assert pair.qps[0].idle
        assert {info.rtt_ns for info in pair.qps[0].ev_map()} == {2 * ONE_WAY_NS}

    def test_a_dead_path_is_used_no_more_until_it_answers(self) -> None:
        pair = ScriptedPair()
        pair.rule = dead_path(0, 2)
        transfer(pair)
        first_retired = len(pair.seen)
        transfer_again(pair)
        path = path_of(ev_format.make(0, 2))
        later = [packet for host, packet in pair.seen[first_retired:] if host == 0 and path_of(packet.ev) == path]
        assert later and all(isinstance(packet.body, EndpointRequest) for packet in later)
        assert {info.state for info in pair.qps[0].ev_map() if path_of(info.ev) == path} == {"ASSUMED_BAD"}

        pair.rule = on_time
        pair.run()
        assert pair.qps[0].ev_counts() == {"GOOD": 8}

    def test_a_retired_path_leaves_its_plane_its_share(self) -> None:
        pair = ScriptedPair()
        pair.rule = dead_path(0, 2)
        transfer(pair)
        before = len(pair.sent(WriteBody))
        for _ in range(5):
            transfer_again(pair)
        planes = Counter(ev_format.plane_of(packet.ev) for packet in pair.sent(WriteBody)[before:])
        assert abs(planes[0] - planes[1]) <= 4

    def test_with_retiring_off_the_path_stays_in_use_and_goes_on_losing(self) -> None:
        pair = ScriptedPair(retire_evs=False)
        pair.rule = dead_path(0, 2)
        transfer(pair)
        lost = len(pair.of_kind(PacketLost))
        transfer_again(pair)
        assert len(pair.of_kind(PacketLost)) > lost and not pair.of_kind(EvChanged)

    def test_a_path_dead_one_way_only_for_reports(self) -> None:
        pair = ScriptedPair()
        dead = dead_path(1, 1)
        pair.rule = lambda host, packet: dead(host, packet) if host == 1 else [ONE_WAY_NS]
        transfer(pair)
        assert pair.qps[0].counters.packets_lost == 0

    def test_a_silent_peer_is_not_the_paths_fault(self) -> None:
        pair = ScriptedPair()
        region = pair.nics[1].register_memory(len(CONTENT))
        pair.post(CONTENT, region)
        pair.rule = lambda host, packet: []
        pair.run(200 * US)
        assert not pair.of_kind(EvChanged)
        pair.rule = on_time
        pair.run()
        assert bytes(region.buffer) == CONTENT

    def test_timeouts_grow_linearly_and_then_double(self) -> None:
        pair = ScriptedPair(linear_retries=3, exponential_retries=3)
        times: list[int] = []

        def silent(host: int, packet: Packet) -> list[int]:
            times.extend([pair.now] * isinstance(packet.body, ReliabilityProbe))
            return []

        pair.rule = silent
        pair.post(CONTENT[:PACKET], pair.nics[1].register_memory(PACKET))
        pair.run()
        (failed,) = pair.of_kind(QpFailed)
        first, *others = (after - before for before, after in pairwise([*times, failed.now_ns]))
        assert [round(interval / first) for interval in others] == [2, 3, 6, 12, 24]

    def test_a_peer_that_trims_everything_is_there(self) -> None:
        pair = ScriptedPair(linear_retries=2, exponential_retries=0)
        pair.alter = lambda host, packet, data: (
            trim(data) if isinstance(packet.body, WriteBody) and pair.now < 500 * US else data
        )
        transfer(pair, PACKET)
        assert pair.qps[0].counters.packets_trimmed > 10 and not pair.of_kind(QpFailed)

    def test_when_retries_end_the_queue_pair_fails_and_says_so_once(self) -> None:
        pair = ScriptedPair(linear_retries=2, exponential_retries=2)
        pair.rule = lambda host, packet: []
        region = pair.nics[1].register_memory(PACKET)
        pair.post(CONTENT[:PACKET], region)
        pair.run()
        (failed,) = pair.of_kind(QpFailed)
        assert "retries exhausted" in failed.why
        assert pair.nics[0].next_timer() is None
        with pytest.raises(QpStateError, match="has failed"):
            pair.post(CONTENT[:PACKET], region)

    def test_without_retries_there_is_still_the_time_for_the_probe_and_its_answer(self) -> None:
        pair = ScriptedPair(linear_retries=0, exponential_retries=0)
        pair.rule = lose_once(0)
        transfer(pair, PACKET)
        assert pair.sent(ReliabilityProbe) and not pair.of_kind(QpFailed)


def test_a_late_wake_up_does_not_time_packets_out() -> None:
    pair = ScriptedPair()
    region = pair.nics[1].register_memory(len(CONTENT))
    pair.post(CONTENT, region)
    pair.rule = lambda host, packet: [300 * US]  # much later than the agent will sleep
    pair.run(1)
    requester = pair.qps[0]._requester
    assert isinstance(requester, Requester)
    for _ in range(2):  # the probe's expiry, then the first that could condemn
        due = requester.next_timer()
        assert due is not None
        pair.now = due + 100 * US
        pair.nics[0].handle_timer(pair.now)
        list(pair.nics[0].datagrams_to_send(pair.now))
    assert pair.qps[0].counters.packets_lost == 0


def test_a_late_agent_reads_all_its_reports_before_it_takes_a_packet_for_lost() -> None:
    pair = ScriptedPair()
    region = pair.nics[1].register_memory(len(CONTENT))
    slow: list[int] = []  # the path of packet 30: nothing crosses it until 48 us

    def rule(host: int, packet: Packet) -> list[int]:
        if host == 1:  # host 0 is away, and finds at 60 us what has come since 36
            arrives = pair.now + ONE_WAY_NS
            return [60 * US - pair.now if 36 * US < arrives < 60 * US else ONE_WAY_NS]
        if pair.now == 30 * US:
            slow.append(path_of(packet.ev))
        is_slow = 30 * US <= pair.now < 45 * US and path_of(packet.ev) in slow
        return [48 * US - pair.now if is_slow else ONE_WAY_NS]

    pair.rule = rule
    for number in range(len(CONTENT) // PACKET):
        pair.post(CONTENT[number * PACKET :][:PACKET], region, offset=number * PACKET)
        pair.run(US)
    pair.run()
    assert bytes(region.buffer) == CONTENT and slow
    assert not pair.of_kind(EvChanged)
