"""Go-back-N's decisions on a wire that loses what the test says, against IBTA volume 1, chapter 9.7."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.memory import Region
from agents.nic import Nic
from agents.nic_config import NicConfig
from agents.transport import ImmediateReceived, PacketLost, QpFailed, QpStateError, SendCompleted
from agents.wire import ev
from agents.wire.headers import (
    AETH_ACK,
    AETH_NAK_INVALID_REQUEST,
    AETH_NAK_REMOTE_ACCESS_ERROR,
    AETH_NAK_SEQUENCE_ERROR,
    Opcode,
    TransportAck,
)
from agents.wire.packet import Packet, RcWrite
from tests.unit.mrc.scripted import ONE_WAY_NS, US
from tests.unit.roce.scripted import RocePair, losing

MTU = 4096
CONTENT = bytes(range(256)) * 16 * 32  # 32 packets
TIMEOUT_NS = 262_144  # 4.096 us x 2^6
FIRST = 100


def sending(content: bytes = CONTENT, *, immediate: int | None = 7, **options: int) -> tuple[RocePair, Region]:
    """A pair whose host 0 has posted one WRITE."""
    pair = RocePair(start_psn=FIRST, **options)
    region = pair.nics[1].register_memory(max(1, len(content)))
    pair.post(content, region, immediate=immediate)
    return pair, region


def naks(pair: RocePair, syndrome: int = AETH_NAK_SEQUENCE_ERROR) -> list[int]:
    """The PSNs of the NAKs that host 1 has sent."""
    return [p.psn for p in pair.sent(TransportAck, host=1) if p.body.syndrome == syndrome]


def complete(pair: RocePair, region: Region, content: bytes = CONTENT) -> None:
    """Everything is there, once, and both ends know."""
    assert bytes(region.buffer)[: len(content)] == content
    assert [event.wr_id for event in pair.of_kind(SendCompleted)] == [0]
    assert [(e.immediate, e.byte_count) for e in pair.of_kind(ImmediateReceived, host=1)] == [(7, len(content))]
    assert pair.qps[0].idle and pair.qps[1].counters.bytes_received == len(content)
    assert pair.nics[0].next_timer() is None, "nothing is awaited any more"


@pytest.mark.parametrize(
    ("size", "opcodes"),
    [
        (0, [Opcode.RC_WRITE_ONLY_IMM]),
        (MTU, [Opcode.RC_WRITE_ONLY_IMM]),
        (MTU + 1, [Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_LAST_IMM]),
        (3 * MTU, [Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_MIDDLE, Opcode.RC_WRITE_LAST_IMM]),
    ],
)
def test_a_message_is_cut_into_packets_with_their_opcodes(size: int, opcodes: list[Opcode]) -> None:
    pair, region = sending(CONTENT[:size])
    pair.run()
    assert [packet.opcode for packet in pair.sent(RcWrite)] == opcodes
    assert [p.body.reth for p in pair.sent(RcWrite)] == [
        (region.address, region.rkey, size),
        *[None] * (len(opcodes) - 1),
    ]
    complete(pair, region, CONTENT[:size])


def test_acks_are_asked_for_now_and_then_and_at_the_end() -> None:
    pair, _ = sending()
    pair.run()
    asked = [packet.psn for packet in pair.sent(RcWrite) if packet.ack_request]
    assert asked == [104, 112, 120, 128, 131]
    assert [(p.psn, p.body.syndrome) for p in pair.sent(TransportAck, host=1)] == [(psn, AETH_ACK) for psn in asked]
    assert pair.sent(TransportAck, host=1)[-1].body.msn == 1, "messages complete"


def test_a_gap_is_answered_by_one_nak_and_everything_from_there_goes_again() -> None:
    pair, region = sending()
    pair.rule = losing(5)
    pair.run()
    assert naks(pair) == [FIRST + 5]
    psns = pair.psns()
    back = psns.index(FIRST + 5, 6)
    assert psns[back:] == list(range(FIRST + 5, FIRST + 32)), "nothing that came after the gap was kept"
    beyond = back - 6  # of the gap, sent before the NAK came
    assert pair.qps[1].refused["out-of-sequence"] == beyond > 1
    assert [(e.psn, e.cause) for e in pair.of_kind(PacketLost)] == [(FIRST + 5, "out-of-sequence")]
    assert pair.qps[0].counters.packets_retransmitted == beyond + 1
    complete(pair, region)


def test_a_second_gap_gets_a_nak_of_its_own() -> None:
    pair, region = sending()
    pair.rule = losing(0, 25)  # the 26th is one of those that go again
    pair.run()
    assert len(naks(pair)) == 2 and naks(pair)[0] == FIRST
    complete(pair, region)


def test_a_retransmission_lost_again_is_not_nakked_again_but_waits_for_the_timeout() -> None:
    pair, region = sending(CONTENT[: 2 * MTU])
    pair.rule = losing(0, 2)  # the first packet, twice
    pair.run()
    assert naks(pair) == [FIRST], "one NAK until the expected PSN moves"
    lost = pair.of_kind(PacketLost)
    assert [event.cause for event in lost] == ["out-of-sequence", "timeout"]
    assert lost[1].now_ns - lost[0].now_ns >= TIMEOUT_NS
    complete(pair, region, CONTENT[: 2 * MTU])


def test_a_lost_tail_waits_for_the_timeout() -> None:
    pair, region = sending(CONTENT[: 3 * MTU])
    pair.rule = losing(2)
    pair.run()
    assert not naks(pair)
    assert [(e.psn, e.cause) for e in pair.of_kind(PacketLost)] == [(FIRST, "timeout")], "nothing was acknowledged"
    assert pair.psns() == [100, 101, 102, 100, 101, 102], "no ACK was asked for before the last packet"
    assert pair.qps[1].counters.packets_duplicate == 2
    complete(pair, region, CONTENT[: 3 * MTU])


def test_duplicates_are_acknowledged_again_and_not_written_again() -> None:
    pair, region = sending(CONTENT[:MTU])
    first_ack_lost = [True]

    def rule(host: int, packet: Packet) -> list[int]:
        if host == 1 and first_ack_lost.pop() if first_ack_lost else False:
            return []
        return [ONE_WAY_NS]

    first_ack_lost.insert(0, False)
    pair.rule = rule
    pair.run(3 * US + 1)
    region.buffer[:] = bytes(MTU)  # the application has taken it
    pair.run()
    assert [p.psn for p in pair.sent(TransportAck, host=1)] == [FIRST, FIRST]
    assert bytes(region.buffer) == bytes(MTU)
    assert len(pair.of_kind(SendCompleted)) == 1 and len(pair.of_kind(ImmediateReceived, host=1)) == 1


def test_eight_timeouts_without_progress_are_the_end() -> None:
    pair, _ = sending()
    pair.rule = lambda host, packet: []
    pair.run(7 * TIMEOUT_NS)
    assert not pair.of_kind(QpFailed)
    pair.run(2 * TIMEOUT_NS)
    [failed] = pair.of_kind(QpFailed)
    assert failed.why == "retries exhausted: 7 tries without progress, the last for timeout"
    assert len([e for e in pair.of_kind(PacketLost) if e.cause == "timeout"]) == 7
    with pytest.raises(QpStateError, match="has failed"):
        pair.post(CONTENT, pair.nics[1].register_memory(1))
    sent = len(pair.seen)
    pair.run()
    assert len(pair.seen) == sent and pair.nics[0].next_timer() is None
    assert pair.qps[0].ev_counts() == {"ASSUMED_BAD": 1}


def test_progress_gives_the_retries_back() -> None:
    """The last of six tries gets the first packet through, and the last of six more the second: no failure."""
    pair, region = sending(CONTENT[: 2 * MTU], ack_interval_packets=1, retry_count=6)
    fates = [False] * 12 + [True, False] + [False] * 5

    def rule(host: int, packet: Packet) -> list[int]:
        if host == 0 and fates and not fates.pop(0):
            return []
        return [ONE_WAY_NS]

    pair.rule = rule
    pair.run(20 * TIMEOUT_NS)
    assert not pair.of_kind(QpFailed)
    assert len(pair.of_kind(PacketLost)) == 12
    complete(pair, region, CONTENT[: 2 * MTU])


def test_the_timeout_doubles_with_each_step_of_its_exponent_and_zero_is_never() -> None:
    for exponent in (3, 4):
        pair, _ = sending(timeout_exponent=exponent)
        pair.rule = losing(*range(32))
        pair.run()
        assert pair.of_kind(PacketLost)[0].now_ns == pytest.approx(4096 << exponent, abs=1000)
    pair, _ = sending(timeout_exponent=0)
    pair.rule = losing(*range(32))
    pair.run()
    assert not pair.of_kind(PacketLost)


@pytest.mark.parametrize(("rkey", "offset"), [(1, 0), (0, 1), (0, -1)])
def test_memory_that_is_not_there_ends_both_queue_pairs_and_nothing_is_written(rkey: int, offset: int) -> None:
    pair = RocePair(start_psn=FIRST)
    region = pair.nics[1].register_memory(len(CONTENT))
    wrong = Region(region.rkey ^ rkey, region.address + offset, region.buffer)
    pair.post(CONTENT, wrong)
    pair.run()
    assert naks(pair, AETH_NAK_REMOTE_ACCESS_ERROR) == [FIRST]
    assert "no such memory" in pair.of_kind(QpFailed)[0].why
    assert len(pair.of_kind(QpFailed, host=1)) == 1
    assert bytes(region.buffer) == bytes(len(CONTENT))


def test_a_message_that_is_longer_than_it_said_is_an_invalid_request() -> None:
    pair, region = sending(CONTENT[: 2 * MTU])
    real = pair.qps[1].receive

    def lying(port: int, packet: Packet, now: int) -> None:
        if isinstance(packet.body, RcWrite) and packet.body.reth is not None:
            address, rkey, _ = packet.body.reth
            packet.body.reth = (address, rkey, MTU + 1)
        real(port, packet, now)

    pair.qps[1].receive = lying  # type: ignore[method-assign]
    pair.run()
    assert naks(pair, AETH_NAK_INVALID_REQUEST) == [FIRST + 1]
    assert "invalid request" in pair.of_kind(QpFailed)[0].why
    assert bytes(region.buffer[MTU:]) == bytes(MTU)


def test_a_nak_from_before_the_latest_progress_sends_nothing_again() -> None:
    pair, _ = sending()
    pair.run(4 * US)
    sent = len(pair.sent(RcWrite))
    for number, syndrome in ((FIRST + 4, AETH_ACK), (FIRST + 2, AETH_NAK_SEQUENCE_ERROR)):
        late = Packet(46, 0, b"", b"", 0, Opcode.RC_ACK, 16, number, False, False, False, TransportAck(0, syndrome))
        pair.qps[0].receive(0, late, 4 * US)
    assert sent > 5 and pair.qps[0].counters.packets_lost == 0


def test_an_ack_for_what_was_never_sent_is_refused() -> None:
    pair, _ = sending(CONTENT[:MTU])
    pair.nics[0].next_timer()
    forged = Packet(46, 0, b"", b"", 0, Opcode.RC_ACK, 16, FIRST + 1, False, False, False, TransportAck(1, AETH_ACK))
    pair.qps[0].receive(0, forged, 0)
    assert pair.qps[0].refused["report"] == 1 and not pair.qps[0].idle


def test_one_path_for_all_packets_of_a_queue_pair_and_different_ones_for_several() -> None:
    pair, _ = sending(planes=1, t1s=8)
    pair.run()
    assert len({packet.ev for packet in pair.sent(RcWrite)}) == 1
    nic = pair.nics[0]
    evs = {nic.create_qp(1, transport="roce").ev_map()[0].ev for _ in range(16)}
    assert len({ev.source_port(value) for value in evs}) == 16
    assert len({ev.uplink_of(value) for value in evs}) > 2


def test_a_fabric_that_hashes_gets_packets_without_the_outer_header() -> None:
    shape = {"planes": 1, "t0_groups": 2, "hosts_per_t0": 1, "t1s_per_plane": 4, "source_routed": False}
    pair = RocePair(start_psn=FIRST)
    pair.nics = [Nic(NicConfig(host=host, **shape), Random(host)) for host in range(2)]
    pair.qps = [pair.nics[host].create_qp(1 - host, transport="roce") for host in range(2)]
    for host in range(2):
        pair.nics[host].connect(pair.qps[host].qpn, pair.qps[1 - host].qpn, pair.qps[1 - host].start_psn)
    region = pair.nics[1].register_memory(len(CONTENT))
    pair.post(CONTENT, region, immediate=7)
    pair.run()
    complete(pair, region)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    lost=st.sets(st.integers(0, 60), max_size=12),
    acks_lost=st.sets(st.integers(0, 20), max_size=5),
    start=st.integers(0, (1 << 24) - 1) | st.integers((1 << 24) - 40, (1 << 24) - 1),
)
def test_whatever_is_lost_all_bytes_arrive_once(lost: set[int], acks_lost: set[int], start: int) -> None:
    pair = RocePair(start_psn=start)
    region = pair.nics[1].register_memory(len(CONTENT))
    data_rule, answers = losing(*lost), [0]

    def rule(host: int, packet: Packet) -> list[int]:
        if host == 0:
            return data_rule(host, packet)
        answers[0] += 1
        return [] if answers[0] in acks_lost else [ONE_WAY_NS]

    pair.rule = rule
    pair.post(CONTENT, region, immediate=7)
    pair.run(100_000 * US)
    complete(pair, region)
