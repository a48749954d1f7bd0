"""When and how a queue pair reports what has arrived, over a scripted wire."""

from __future__ import annotations

from agents.mrc.ev_set import path_of
from agents.wire.headers import ReliabilityProbe, Sack
from agents.wire.packet import Write as WriteBody
from tests.unit.mrc.scripted import (
    CONTENT,
    PACKET,
    ScriptedPair,
    one_by_one,
    transfer,
    transfer_again,
)


class TestReports:
    def test_one_for_so_many_bytes(self) -> None:
        pair = ScriptedPair(sack_threshold_bytes=8 * PACKET)
        pair.rule = one_by_one()
        transfer(pair)
        assert len(pair.sent(Sack, host=1)) == 8

    def test_the_last_packet_of_a_burst_asks_for_one(self) -> None:
        pair = ScriptedPair()
        transfer(pair, 3 * PACKET)
        assert [packet.ack_request for packet in pair.sent(WriteBody)] == [False, False, True]
        assert len(pair.sent(Sack, host=1)) == 1

    def test_a_small_window_asks_for_one_whenever_it_closes(self) -> None:
        pair = ScriptedPair(congestion="fixed", window_bytes=2 * PACKET)
        transfer(pair)
        assert not pair.sent(ReliabilityProbe), "no timer is needed"

    def test_one_of_packets_that_were_never_sent_is_refused(self) -> None:
        pair = ScriptedPair(start_psn=0)
        requester = pair.qps[0]._requester
        assert not requester.on_sack(Sack(0, 5), 0)
        transfer(pair)
        assert pair.qps[0].counters.bytes_acked == len(CONTENT)

    def test_they_go_back_over_the_path_that_the_packet_came_by(self) -> None:
        pair = ScriptedPair()
        transfer(pair)
        for packet in pair.sent(Sack, host=1):
            assert isinstance(packet.body, Sack) and path_of(packet.ev) == path_of(packet.body.ev)

    def test_but_not_over_one_that_is_out_of_use_here(self) -> None:
        pair = ScriptedPair(planes=2)
        pair.rule = one_by_one()
        denied = pair.qps[1].ev_map()[0].ev
        pair.qps[1].deny(denied, 0)
        for _ in range(5):
            transfer_again(pair)
        used = {path_of(packet.ev) for packet in pair.sent(Sack, host=1)}
        echoed = {path_of(packet.body.ev) for packet in pair.sent(Sack, host=1) if isinstance(packet.body, Sack)}
        assert path_of(denied) in echoed and path_of(denied) not in used

    def test_they_carry_the_senders_timestamp_and_the_ports(self) -> None:
        pair = ScriptedPair(tick_ns=1)
        pair.nics[1].set_port_up(1, False, 0)
        transfer(pair, PACKET)
        (write,), (report,) = pair.sent(WriteBody), pair.sent(Sack, host=1)
        assert isinstance(write.body, WriteBody) and isinstance(report.body, Sack)
        assert report.body.tx_timestamp == write.body.tx_timestamp
        assert report.body.ports_down == 0b10
