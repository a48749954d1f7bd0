"""Channels and ranks over queue pairs that deliver when the test says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.transport import ImmediateReceived, QpFailed, QpStateError, SendCompleted, Write
from agents.workloads.channel import SLOTS, Channel, Lane, region_bytes
from agents.workloads.programs import KINDS, Job
from agents.workloads.rank import Began, Ended, Program, RankCounters, RankWorkload, Receive, Send, Sleep
from agents.workloads.write_bw import Target

BASE = 1 << 32
SIZE = 600


class Queue:
    """A queue pair: keeps what is posted until it is delivered to the channel at the far end."""

    def __init__(self, qpn: int) -> None:
        self.qpn = qpn
        self.posted: list[Write] = []
        self.dead = False

    def post(self, write: Write) -> None:
        if self.dead:
            raise QpStateError(f"queue pair {self.qpn} has failed")
        self.posted.append(write)


class Two:
    """Two channels with `lanes` queue pairs between them."""

    def __init__(self, lanes: int = 1, size: int = SIZE) -> None:
        each = region_bytes(size, lanes)
        self.queues = [[Queue(10 * end + lane) for lane in range(lanes)] for end in range(2)]
        self.memory = [[memoryview(bytearray(each)) for _ in range(lanes)] for _ in range(2)]
        target = Target(BASE, 1, each)
        self.channels = [
            Channel([Lane(queue, memory, target) for queue, memory in zip(*both, strict=True)])  # type: ignore[arg-type]
            for both in zip(self.queues, self.memory, strict=True)
        ]
        self.takers: list[Any] = [None, None]  # ranks, instead of the channels

    def deliver(self, end: int, lane: int, now: int = 0) -> bool:
        """The oldest part that `end` has sent on a lane arrives and is acknowledged."""
        queue = self.queues[end][lane]
        if not queue.posted:
            return False
        write, far = queue.posted.pop(0), 1 - end
        offset = write.address - BASE
        self.memory[far][lane][offset : offset + len(write.data)] = write.data
        assert write.immediate is not None
        qpn = self.queues[far][lane].qpn
        self._tell(far, ImmediateReceived(qpn, now, write.immediate, len(write.data)), now)
        self._tell(end, SendCompleted(queue.qpn, now, write.wr_id), now)
        return True

    def _tell(self, end: int, event: Any, now: int) -> None:
        if self.takers[end] is None:
            self.channels[end].on_event(event)
        else:
            self.takers[end].on_event(event, now)


@given(
    lanes=st.integers(1, 9),
    sizes=st.lists(st.integers(0, SIZE), min_size=1, max_size=12),
    choices=st.lists(st.integers(0, 8), max_size=400),
)
def test_messages_arrive_whole_and_in_order_however_the_lanes_run(
    lanes: int, sizes: list[int], choices: list[int]
) -> None:
    two = Two(lanes)
    messages = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    for message in messages:
        two.channels[0].send(message)
    for choice in choices:
        two.deliver(0, choice % lanes)
    while any(two.deliver(0, lane) for lane in range(lanes)):
        pass
    assert [two.channels[1].receive() for _ in messages] == messages
    assert two.channels[1].receive() is None and two.channels[0].idle
    assert two.channels[1].messages_unexpected == 0
    assert two.channels[0].bytes_sent == sum(sizes)


def test_a_slot_is_not_written_before_its_last_message_is_acknowledged() -> None:
    two = Two()
    for _ in range(SLOTS + 2):
        two.channels[0].send(bytes(SIZE))
    assert len(two.queues[0][0].posted) == SLOTS
    assert len({write.address for write in two.queues[0][0].posted}) == SLOTS
    two.deliver(0, 0)
    assert len(two.queues[0][0].posted) == SLOTS


def test_a_lane_that_is_ahead_waits_for_the_others() -> None:
    two = Two(2)
    for _ in range(SLOTS + 2):
        two.channels[0].send(bytes(SIZE))
    two.deliver(0, 0)
    assert [len(queue.posted) for queue in two.queues[0]] == [SLOTS - 1, SLOTS]


def test_a_part_with_another_number_is_unexpected() -> None:
    two = Two()
    two.channels[1].on_event(ImmediateReceived(10, 0, 1, 4))
    assert two.channels[1].messages_unexpected == 1


def test_a_message_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        Two().channels[0].send(bytes(SIZE + 1))


def ranks_of(two: Two, *programs: Program) -> list[RankWorkload]:
    two.takers = [
        RankWorkload(end, {1 - end: two.channels[end]}, program, RankCounters()) for end, program in enumerate(programs)
    ]
    return two.takers


def test_a_program_waits_where_it_has_to_and_its_times_are_kept() -> None:
    heard: list[bytes] = []

    def near() -> Program:
        yield Began()
        yield Send(1, b"question")
        heard.append((yield Receive(1)))
        yield Ended()

    def far() -> Program:
        heard.append((yield Receive(0)))
        yield Sleep(100)
        yield Send(0, b"answer")

    two = Two()
    one, other = ranks_of(two, near(), far())
    assert not two.queues[0][0].posted, "nobody begins before being released"
    one.release(5)
    one.release(6)
    assert len(two.queues[0][0].posted) == 1
    two.deliver(0, 0, now=7)
    assert heard == [], "the far end is not released yet; the message waits"
    other.release(10)
    assert heard == [b"question"] and other.next_timer() == 110
    other.handle_timer(109)
    assert not two.queues[1][0].posted
    other.handle_timer(110)
    assert not other.done, "what it sent is not acknowledged"
    two.deliver(1, 0, now=120)
    assert heard == [b"question", b"answer"]
    assert one.done and other.done
    assert one.report()["times"] == [(5, 120, 1)] and one.report()["operations"] == 1


def test_a_queue_pair_that_fails_ends_the_rank_and_is_reported() -> None:
    two = Two()
    one, _ = ranks_of(two, KINDS["sendrecv"].program(a_job("sendrecv"), 0, RankCounters()), iter(()))  # type: ignore[arg-type]
    one.release(0)
    one.on_event(QpFailed(0, 1, "retries exhausted"), 1)
    assert one.done and one.report()["failure"] == "retries exhausted" and one.next_timer() is None


def test_posting_on_a_dead_queue_pair_ends_the_rank_too() -> None:
    two = Two()
    two.queues[0][0].dead = True
    one, _ = ranks_of(two, KINDS["sendrecv"].program(a_job("sendrecv"), 0, RankCounters()), iter(()))  # type: ignore[arg-type]
    one.release(0)
    assert one.done and "has failed" in one.report()["failure"]


def test_stop_ends_it_where_it_is() -> None:
    two = Two()
    one, _ = ranks_of(two, KINDS["training"].program(a_job("training", compute_ns=9), 0, RankCounters()), iter(()))  # type: ignore[arg-type]
    one.release(0)
    assert one.next_timer() == 9
    one.stop(1)
    assert one.done and one.next_timer() is None and one.report()["failure"] is None


def a_job(kind: str, **fields: int) -> Job:
    return Job(**{"kind": kind, "ranks": 2, "message_bytes": SIZE, "operations": 4, "seed": 3, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spoil", [False, True])
def test_each_kind_checks_every_byte(kind: str, spoil: bool) -> None:
    job, counters = a_job(kind), [RankCounters(), RankCounters()]
    two = Two(lanes=2)
    two.takers = [
        RankWorkload(end, {1 - end: two.channels[end]}, KINDS[kind].program(job, end, counters[end]), counters[end])
        for end in range(2)
    ]
    for rank in two.takers:
        rank.release(0)
    now, spoiled = 0, not spoil
    while not all(rank.done for rank in two.takers):
        now += 1
        assert now < 1000
        for end in range(2):
            for lane in range(2):
                posted = two.queues[end][lane].posted
                if posted and not spoiled and len(posted[0].data):
                    changed = bytearray(posted[0].data)
                    changed[-1] ^= 0x10
                    posted[0] = Write(
                        posted[0].wr_id, memoryview(changed), posted[0].address, 1, immediate=posted[0].immediate
                    )
                    spoiled = True
                two.deliver(end, lane, now)
            if two.takers[end].next_timer() is not None:
                two.takers[end].handle_timer(now)
    assert [one.operations for one in counters] == [4, 4]
    wrong = sum(one.bytes_wrong for one in counters)
    assert wrong > 0 if spoil else wrong == 0
    assert all(one.bytes_delivered >= 4 * SIZE // 2 for one in counters)


def test_a_job_that_was_interrupted_goes_on_with_the_operation_it_names() -> None:
    counters = RankCounters()
    program = KINDS["sendrecv"].program(a_job("sendrecv", first=3), 0, counters)
    assert next(program) == Began()
    assert program.send(b"") == Send(1, a_job("sendrecv").pattern(0, 1, SIZE).message(3))
