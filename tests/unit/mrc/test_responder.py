"""When the responder reports, and what it answers to packets that it does not take."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from agents.memory import MemoryTable
from agents.mrc.config import MrcConfig
from agents.mrc.responder import Responder
from agents.transport import Event, ImmediateReceived, QpCounters
from agents.wire import ev as ev_format
from agents.wire.headers import Nack, NackReason, Opcode, ReliabilityProbe, Sack
from agents.wire.packet import Packet, Write

SIZE = 100
EV = ev_format.make(1, 2, 3)
FIRST = 0xFFFFFE  # so that the numbers wrap


class Receiver:
    """A responder and a region for 64 packets; PSNs here count from 0."""

    def __init__(self, mpr: int = 1024, max_wimm: int = 128) -> None:
        self.memory = MemoryTable(Random(1))
        self.region = self.memory.register(64 * SIZE)
        self.counters = QpCounters()
        self.events: list[Event] = []
        self.refused: Counter[str] = Counter()
        config = MrcConfig(sack_threshold_bytes=10 * SIZE, mpr=mpr, max_wimm=max_wimm)
        self.responder = Responder(16, config, self.memory, 4, self.counters, self.refused, self.events.append)
        self.responder.connect(FIRST)

    def packet(self, body: Write | ReliabilityProbe, psn: int, *, ack: bool = False, again: bool = False) -> Packet:
        number = FIRST + psn & 0xFFFFFF
        return Packet(4, 2, bytes(16), bytes(16), EV, Opcode.WRITE_MIDDLE, 16, number, ack, again, False, body)

    def write(
        self,
        psn: int,
        *,
        ack: bool = False,
        again: bool = False,
        immediate: int | None = None,
        rqmsn: int = 0,
        rkey: int | None = None,
    ) -> None:
        address = self.region.address + psn % 64 * SIZE
        rkey = self.region.rkey if rkey is None else rkey
        body = Write(rqmsn, 0, 77, address, rkey, SIZE, immediate, memoryview(bytes([psn % 255 + 1]) * SIZE))
        self.responder.on_write(1, self.packet(body, psn, ack=ack, again=again), body, 0)

    def reports(self) -> list[Sack | Nack]:
        found = []
        while (report := self.responder.poll(0b100)) is not None:
            found.append(report[1])
        return found


def test_nothing_before_the_threshold_and_one_report_at_it() -> None:
    receiver = Receiver()
    for psn in range(9):
        receiver.write(psn)
        assert receiver.reports() == []
    receiver.write(9)
    (report,) = receiver.reports()
    assert isinstance(report, Sack)
    assert (report.cack, report.ev, report.tx_timestamp, report.ports_down) == (7, EV, 77, 0b100)


@pytest.mark.parametrize("flags", [{"ack": True}, {"again": True}])
def test_at_once_when_asked_or_sent_again(flags: dict[str, bool]) -> None:
    receiver = Receiver()
    receiver.write(2, **flags)
    (report,) = receiver.reports()
    assert isinstance(report, Sack) and report.bitmap == 0b100 and report.ooo_count == 1
    assert report.cack == FIRST - 1 and report.ack_psn_offset == 3


def test_at_once_for_a_duplicate_which_is_not_written_again() -> None:
    receiver = Receiver()
    receiver.write(0)
    receiver.region.buffer[:SIZE] = bytes(SIZE)
    receiver.write(0)
    assert len(receiver.reports()) == 1 and not any(receiver.region.buffer)
    assert receiver.counters.packets_duplicate == 1 and receiver.counters.bytes_received == SIZE


def test_when_the_holes_before_the_end_of_a_burst_fill() -> None:
    receiver = Receiver()
    receiver.write(3, ack=True)
    receiver.reports()
    for psn in (0, 2):
        receiver.write(psn)
        assert receiver.reports() == []
    receiver.write(1)
    (report,) = receiver.reports()
    assert isinstance(report, Sack) and report.cack == FIRST + 3 & 0xFFFFFF


def test_a_probe_is_answered_with_its_number_once() -> None:
    receiver = Receiver()
    receiver.write(1)
    probe = ReliabilityProbe(55, 66)
    receiver.responder.on_probe(receiver.packet(probe, 0), probe)
    (report,) = receiver.reports()
    assert isinstance(report, Sack)
    assert (report.probe_id, report.tx_timestamp, report.bitmap) == (55, 66, 0b10)
    receiver.write(2, ack=True)
    (report,) = receiver.reports()
    assert isinstance(report, Sack) and report.probe_id is None


def test_far_apart_arrivals_get_a_report_each() -> None:
    receiver = Receiver()
    for psn in (1, 100, 300):
        receiver.write(psn)
    receiver.write(301, ack=True)
    offsets = [report.sack_offset for report in receiver.reports() if isinstance(report, Sack)]
    assert offsets == [1 + 4 * 64, 1, 1 + 64]


def test_beyond_the_window_is_refused_and_not_written() -> None:
    receiver = Receiver(mpr=128)
    receiver.write(128)
    (report,) = receiver.reports()
    assert isinstance(report, Nack)
    assert (report.reason, report.psn) == (NackReason.PSN_OOR_WINDOW, FIRST + 128 & 0xFFFFFF)
    assert not any(receiver.region.buffer) and receiver.refused == {"window": 1}


def test_wrong_key_is_fatal_and_nothing_is_taken_afterwards() -> None:
    receiver = Receiver()
    receiver.write(0, rkey=receiver.region.rkey ^ 1)
    (report,) = receiver.reports()
    assert isinstance(report, Nack) and report.reason == NackReason.UNEXP_EVENT
    receiver.write(0)
    assert receiver.counters.packets_received == 0 and not any(receiver.region.buffer)
    assert reasons(receiver) == [NackReason.UNEXP_EVENT], "again, in case the first was lost"


def immediates(receiver: Receiver) -> list[int]:
    return [event.immediate for event in receiver.events if isinstance(event, ImmediateReceived)]


def reasons(receiver: Receiver) -> list[int]:
    return [report.reason for report in receiver.reports() if isinstance(report, Nack)]


def test_immediates_wait_for_all_before_them() -> None:
    receiver = Receiver()
    receiver.write(2, immediate=22, rqmsn=2)
    receiver.write(1, immediate=11, rqmsn=1)
    assert receiver.events == []
    receiver.write(0)
    assert immediates(receiver) == [11, 22]


@pytest.mark.parametrize("rqmsn", [0, 0xFFFF, 0x8001])
def test_a_number_of_an_immediate_that_cannot_be_is_fatal(rqmsn: int) -> None:
    receiver = Receiver()
    receiver.write(0, immediate=5, rqmsn=rqmsn)
    assert reasons(receiver) == [NackReason.UNEXP_EVENT] and immediates(receiver) == []
    assert not any(receiver.region.buffer) and receiver.counters.packets_received == 0


def test_two_immediates_of_one_number_are_fatal() -> None:
    receiver = Receiver()
    receiver.write(1, immediate=5, rqmsn=1)
    receiver.write(2, immediate=6, rqmsn=1)
    assert reasons(receiver) == [NackReason.UNEXP_EVENT]


def test_a_number_left_out_holds_back_all_after_it() -> None:
    receiver = Receiver()
    receiver.write(0, immediate=5, rqmsn=2)
    assert immediates(receiver) == []
    receiver.write(1, immediate=6, rqmsn=1)
    assert immediates(receiver) == [6, 5]


def test_no_more_immediates_than_there_is_room_for_are_stashed() -> None:
    receiver = Receiver(max_wimm=2)
    for psn in (1, 2, 3):
        receiver.write(psn, immediate=psn, rqmsn=psn)
    assert reasons(receiver) == [NackReason.NO_RESOURCE]
    receiver.write(0)
    assert immediates(receiver) == [1, 2]
    receiver.write(3, immediate=3, rqmsn=3)
    assert immediates(receiver) == [1, 2, 3], "it had not been taken, so it could come again"


def test_numbers_of_immediates_wrap() -> None:
    receiver = Receiver()
    for number in range(1, (1 << 16) + 10):
        receiver.write(number - 1, immediate=number, rqmsn=number & 0xFFFF)
    assert immediates(receiver)[-1] == (1 << 16) + 9 and not reasons(receiver)


def test_the_window_can_shrink_and_grow_and_the_reports_say_so() -> None:
    receiver = Receiver(mpr=256)
    receiver.responder.set_mpr(128)
    receiver.write(128)
    assert reasons(receiver) == [NackReason.PSN_OOR_WINDOW]
    receiver.write(127, ack=True)
    (report,) = receiver.reports()
    assert isinstance(report, Sack) and report.mpr == 128
    receiver.responder.set_mpr(256)
    receiver.write(128, ack=True)
    report = receiver.reports()[0]
    assert isinstance(report, Sack) and report.mpr == 256


def test_reports_carry_the_receivers_penalty() -> None:
    receiver = Receiver()
    receiver.responder.penalty = 17
    receiver.write(0, ack=True)
    (report,) = receiver.reports()
    assert isinstance(report, Sack) and report.rcv_cwnd_pen == 17
