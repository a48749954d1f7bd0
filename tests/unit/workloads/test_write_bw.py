"""agents.workloads.write_bw over a wire that delivers when the test says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.transport import (
    Datagram,
    Event,
    EvInfo,
    ImmediateReceived,
    QpCounters,
    QpFailed,
    QueuePair,
    SendCompleted,
    Write,
)
from agents.wire.packet import Packet
from agents.workloads.pattern import Pattern
from agents.workloads.write_bw import CATCH_UP_NS, Offer, Target, WriteBwReceiver, WriteBwSender

MS = 1_000_000
QPN = 5
MESSAGE_BYTES = 1000
REGION_BYTES = 4 * MESSAGE_BYTES + 10
BASE = 1 << 32


class Wire(QueuePair):
    """A queue pair that keeps what is posted until `deliver`, which writes it into the far end's memory."""

    def __init__(self) -> None:
        self.qpn = QPN
        self.counters = QpCounters()
        self.bytes_received_by_port = []
        self.posted: list[Write] = []
        self.memory = memoryview(bytearray(REGION_BYTES))

    def post(self, write: Write) -> None:
        self.posted.append(write)

    def deliver(self, now: int = 0) -> tuple[ImmediateReceived, SendCompleted]:
        """The oldest write lands; what the receiver and the sender are told of it."""
        write = self.posted.pop(0)
        offset = write.address - BASE
        self.memory[offset : offset + len(write.data)] = write.data
        assert write.immediate is not None
        return ImmediateReceived(QPN, now, write.immediate, len(write.data)), SendCompleted(QPN, now, write.wr_id)

    def connect(self, remote_qpn: int, remote_psn: int) -> None:
        raise NotImplementedError

    @property
    def idle(self) -> bool:
        return not self.posted

    def ev_map(self) -> list[EvInfo]:
        return []

    def ev_counts(self) -> dict[str, int]:
        return {}

    def receive(self, port: int, packet: Packet, now: int) -> None:
        raise NotImplementedError

    def poll_transmit(self, now: int, ready_ports: int) -> Datagram | None:
        return None

    def set_port_up(self, port: int, up: bool, now: int) -> None:
        raise NotImplementedError

    def next_timer(self) -> int | None:
        return None

    def handle_timer(self, now: int) -> None:
        raise NotImplementedError

    def events(self) -> Iterator[Event]:
        return iter(())


def sender_over(wire: Wire, offer: Offer) -> WriteBwSender:
    return WriteBwSender(wire, Pattern(9, MESSAGE_BYTES), Target(BASE, 1, REGION_BYTES), offer)


def receiver_over(wire: Wire) -> WriteBwReceiver:
    return WriteBwReceiver(QPN, Pattern(9, MESSAGE_BYTES), wire.memory)


def run_until(sender: WriteBwSender, wire: Wire, end: int) -> list[int]:
    """Wake the sender whenever it asks to be; each message completes at once. The times of its posts."""
    times: list[int] = []
    while (due := sender.next_timer()) is not None and due <= end:
        sender.handle_timer(due)
        times += [due] * len(wire.posted)
        while wire.posted:
            sender.on_event(wire.deliver(due)[1], due)
    return times


def posts_at(sender: WriteBwSender, wire: Wire, now: int) -> list[int]:
    """All that a sender posts when it is woken at `now` only; each message completes at once."""
    sender.handle_timer(now)
    times: list[int] = []
    while wire.posted:
        times.append(now)
        sender.on_event(wire.deliver(now)[1], now)
    return times


def test_all_bytes_are_checked_and_the_slots_wiped() -> None:
    wire = Wire()
    sender, receiver = sender_over(wire, Offer()), receiver_over(wire)
    sender.handle_timer(0)
    for now in range(1, 50):
        immediate, completed = wire.deliver(now)
        receiver.on_event(immediate, now)
        sender.on_event(completed, now)
    report = receiver.report()
    assert report["messages"] == 49
    assert report["bytes_delivered"] == 49 * MESSAGE_BYTES
    assert report["bytes_wrong"] == report["messages_unexpected"] == 0
    assert wire.memory == bytes(REGION_BYTES)


@given(places=st.sets(st.integers(0, MESSAGE_BYTES - 1), min_size=1, max_size=50))
def test_bytes_corrupted_on_purpose_are_counted_as_wrong(places: set[int]) -> None:
    wire = Wire()
    sender, receiver = sender_over(wire, Offer()), receiver_over(wire)
    sender.handle_timer(0)
    immediate, _ = wire.deliver()
    for place in places:
        wire.memory[place] ^= 0x40
    receiver.on_event(immediate, 0)
    receiver.on_event(wire.deliver()[0], 0)
    assert receiver.report()["bytes_wrong"] == len(places)
    assert receiver.report()["bytes_delivered"] == 2 * MESSAGE_BYTES


def test_a_message_that_never_landed_is_wrong_although_its_slot_had_been_right_before() -> None:
    wire = Wire()
    sender, receiver = sender_over(wire, Offer()), receiver_over(wire)
    sender.handle_timer(0)
    for _ in range(4):
        immediate, completed = wire.deliver()
        receiver.on_event(immediate, 0)
        sender.on_event(completed, 0)
    assert wire.posted[0].wr_id == 4, "the first slot is to be used again"
    receiver.on_event(ImmediateReceived(QPN, 0, 4, MESSAGE_BYTES), 0)
    wrong = receiver.report()["bytes_wrong"]
    assert isinstance(wrong, int) and wrong > 0.98 * MESSAGE_BYTES


@pytest.mark.parametrize(("immediate", "length"), [(1, MESSAGE_BYTES), (0, MESSAGE_BYTES - 1)])
def test_a_message_out_of_order_or_of_another_length_is_unexpected(immediate: int, length: int) -> None:
    wire = Wire()
    receiver = receiver_over(wire)
    receiver.on_event(ImmediateReceived(QPN, 0, immediate, length), 0)
    assert receiver.report()["messages_unexpected"] == 1


def test_message_numbers_go_on_where_immediates_wrap() -> None:
    wire = Wire()
    receiver, pattern = receiver_over(wire), Pattern(9, MESSAGE_BYTES)
    receiver._next = (1 << 32) - 1
    for number in ((1 << 32) - 1, 1 << 32):
        slot = number % 4 * MESSAGE_BYTES
        wire.memory[slot : slot + MESSAGE_BYTES] = pattern.message(number)
        receiver.on_event(ImmediateReceived(QPN, 0, number & 0xFFFF_FFFF, MESSAGE_BYTES), 0)
    assert receiver.report()["bytes_wrong"] == receiver.report()["messages_unexpected"] == 0


def test_a_slot_is_not_used_again_before_its_message_has_completed() -> None:
    wire = Wire()
    sender = sender_over(wire, Offer())
    sender.handle_timer(0)
    assert [write.address - BASE for write in wire.posted] == [0, 1000, 2000, 3000]
    sender.on_event(SendCompleted(QPN, 0, 2), 0)
    assert len(wire.posted) == 4, "slot 0 is still in use"
    assert sender.next_timer() is None
    sender.on_event(SendCompleted(QPN, 0, 0), 0)
    assert [write.wr_id for write in wire.posted] == [0, 1, 2, 3, 4]
    sender.on_event(SendCompleted(QPN, 0, 1), 0)
    assert [write.wr_id for write in wire.posted] == [0, 1, 2, 3, 4, 5, 6]


def test_outstanding_bounds_what_is_under_way() -> None:
    wire = Wire()
    sender = sender_over(wire, Offer(outstanding=2))
    sender.handle_timer(0)
    assert len(wire.posted) == 2


@given(load_bps=st.integers(10_000, 10**9), start=st.integers(0, 10**15), messages=st.integers(1, 300))
def test_the_offered_load_is_kept_to_the_message(load_bps: int, start: int, messages: int) -> None:
    wire = Wire()
    end = start + messages * MESSAGE_BYTES * 8 * 10**9 // load_bps
    times = run_until(sender_over(wire, Offer(load_bps, start)), wire, end)
    assert times[0] == start
    assert messages <= len(times) <= messages + 1
    assert times == sorted(times)


def test_a_short_delay_is_caught_up_and_a_long_stall_is_not() -> None:
    wire = Wire()
    sender = sender_over(wire, Offer(load_bps=8_000_000))  # a message each ms
    run_until(sender, wire, 10 * MS)
    late = 10 * MS + CATCH_UP_NS // 2
    assert len(posts_at(sender, wire, late)) == CATCH_UP_NS // 2 // MS
    assert sender.report()["messages_given_up"] == 0
    later = late + 10 * CATCH_UP_NS
    assert len(posts_at(sender, wire, later)) == CATCH_UP_NS // MS + 1
    assert sender.report()["messages_given_up"] == 9 * CATCH_UP_NS // MS - 1


def test_a_message_slower_than_the_catch_up_time_is_still_sent() -> None:
    wire = Wire()
    interval = 4 * CATCH_UP_NS
    sender = sender_over(wire, Offer(load_bps=MESSAGE_BYTES * 8 * 10**9 // interval))
    for number in range(5):
        assert len(posts_at(sender, wire, number * interval + 2 * CATCH_UP_NS)) == 1
    assert sender.report()["messages_given_up"] == 0


def test_after_its_time_a_sender_only_waits_for_completions() -> None:
    wire = Wire()
    sender = sender_over(wire, Offer(load_bps=8_000_000, start_ns=5, stop_ns=3 * MS))
    for now in (5, MS + 5, 2 * MS + 5):
        assert sender.next_timer() == now
        sender.handle_timer(now)
    assert sender.next_timer() == 3 * MS
    sender.handle_timer(3 * MS)
    assert sender.next_timer() is None
    assert not sender.done
    assert sender.report()["under_way"] == 3
    while wire.posted:
        sender.on_event(wire.deliver()[1], 4 * MS)
    assert sender.done
    report = sender.report()
    assert report["bytes_completed"] == report["bytes_posted"] == 3 * MESSAGE_BYTES


def test_stop_ends_it_early() -> None:
    wire = Wire()
    sender = sender_over(wire, Offer())
    sender.handle_timer(0)
    sender.stop(1)
    while wire.posted:
        sender.on_event(wire.deliver()[1], 2)
    assert sender.done
    assert sender.report()["messages_posted"] == 4


def test_a_failed_queue_pair_is_reported_and_waited_for_no_longer() -> None:
    wire = Wire()
    sender, receiver = sender_over(wire, Offer()), receiver_over(wire)
    sender.handle_timer(0)
    for side in (sender, receiver):
        side.on_event(QpFailed(QPN, 1, "retries exhausted"), 1)
        assert side.report()["failure"] == "retries exhausted"
    assert sender.done
    assert sender.next_timer() is None


def test_a_region_without_room_for_a_message_is_refused() -> None:
    with pytest.raises(ValueError, match="no room for a message"):
        WriteBwReceiver(QPN, Pattern(9, MESSAGE_BYTES), memoryview(bytearray(999)))
