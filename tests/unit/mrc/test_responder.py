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

    def __init__(self, mpr: int = 1024) -> None:
        self.memory = MemoryTable(Random(1))
        self.region = self.memory.register(64 * SIZE)
        self.counters = QpCounters()
        self.events: list[Event] = []
        self.refused: Counter[str] = Counter()
        config = MrcConfig(sack_threshold_bytes=10 * SIZE, mpr=mpr)
        self.responder = Responder(16, config, self.memory, 4, self.counters, self.refused, self.events.append)
        self.responder.connect(FIRST)

    def packet(self, body: Write | ReliabilityProbe, psn: int, *, ack: bool = False, again: bool = False) -> Packet:
        number = FIRST + psn & 0xFFFFFF
        return Packet(4, 2, bytes(16), bytes(16), EV, Opcode.WRITE_MIDDLE, 16, number, ack, again, False, body)

    def write(
        self, psn: int, *, ack: bool = False, again: bool = False, immediate: int | None = None, rkey: int | None = None
    ) -> None:
        address = self.region.address + psn % 64 * SIZE
        rkey = self.region.rkey if rkey is None else rkey
        body = Write(0, 0, 77, address, rkey, SIZE, immediate, memoryview(bytes([psn % 255 + 1]) * SIZE))
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


def test_wrong_key_is_fatal_and_does_not_count_as_arrived() -> None:
    receiver = Receiver()
    receiver.write(0, rkey=receiver.region.rkey ^ 1)
    (report,) = receiver.reports()
    assert isinstance(report, Nack) and report.reason == NackReason.UNEXP_EVENT
    receiver.write(0)
    assert receiver.counters.packets_received == 1


def test_immediates_wait_for_all_before_them() -> None:
    receiver = Receiver()
    receiver.write(2, immediate=22)
    receiver.write(1, immediate=11)
    assert receiver.events == []
    receiver.write(0)
    assert [event.immediate for event in receiver.events if isinstance(event, ImmediateReceived)] == [11, 22]
