"""What proves that a packet which was taken for lost has arrived after all, and what only looks like it."""

from __future__ import annotations

import pytest

from agents.message import Message
from agents.mrc.doubts import Doubts
from agents.mrc.ev_set import Ev
from agents.mrc.scoreboard import Sent
from agents.transport import EvChanged, Write
from agents.wire import ev as ev_format
from agents.wire.headers import Sack
from agents.wire.packet import Packet
from agents.wire.packet import Write as WriteBody
from tests.unit.mrc.scripted import ONE_WAY_NS, ScriptedPair, transfer, transfer_again

MESSAGE = Message(Write(0, memoryview(bytes(1)), 0, 0), 0, 1, 0, 0)
WRAP = 1 << 24


class Verdict:
    """PSN 7 over EV `a` was taken for lost, and goes again over `b`."""

    def __init__(self) -> None:
        self.a, self.b = Ev(ev_format.make(0, 0)), Ev(ev_format.make(0, 1))
        self.doubts = Doubts()
        self.first = self.sent(7, self.a)
        self.doubts.blamed(self.first)
        self.again = self.sent(7, self.b, self.first)

    def sent(self, psn: int, ev: Ev, before: Sent | None = None) -> Sent:
        return Sent(psn, MESSAGE, 1, ev, 0, 0, before)

    def report(self, news: list[Sent], trigger: int | None, ev: Ev, received: int) -> Ev | None:
        return self.doubts.reported(news, trigger, Sack(ev.value, 0, 0, rcvd_bytes_256=received % WRAP))


def test_a_report_that_the_lost_transmission_caused() -> None:
    verdict = Verdict()
    assert verdict.report([], 7, verdict.a, 100) is verdict.a
    assert verdict.report([], 7, verdict.a, 100) is None, "once"


def test_its_retransmission_is_what_was_reported() -> None:
    verdict = Verdict()
    assert verdict.report([verdict.again], 7, verdict.b, 100) is None
    assert verdict.report([], 7, verdict.b, 100) is None, "a second report of the same packet"


@pytest.mark.parametrize("received", [100, WRAP - 1])
def test_its_retransmission_came_to_a_responder_that_had_the_packet(received: int) -> None:
    verdict = Verdict()
    assert verdict.report([verdict.again], 9, verdict.b, received) is None
    assert verdict.report([], 7, verdict.b, received + 16) is verdict.a


def test_a_report_of_the_retransmission_that_a_later_one_has_overtaken_proves_nothing() -> None:
    verdict = Verdict()
    verdict.report([verdict.again], 9, verdict.b, 100)
    assert verdict.report([], 7, verdict.b, 84) is None


def test_while_another_packet_of_the_ev_is_in_doubt_that_is_told() -> None:
    verdict = Verdict()
    verdict.doubts.blamed(verdict.sent(8, verdict.a))
    assert verdict.report([], 7, verdict.a, 100) is verdict.a and verdict.doubts.any_on(verdict.a)
    assert verdict.report([], 8, verdict.a, 116) is verdict.a and not verdict.doubts.any_on(verdict.a)


def test_only_the_latest_verdicts_are_kept() -> None:
    verdict = Verdict()
    for psn in range(8, 8 + 64):
        verdict.doubts.blamed(verdict.sent(psn, verdict.b))
    assert verdict.report([], 7, verdict.a, 100) is None
    assert verdict.report([], 8, verdict.b, 100) is verdict.b


def test_an_ev_whose_packet_was_only_late_is_used_again_at_once_and_without_a_probe() -> None:
    pair = ScriptedPair(probe_interval_ns=10**9)
    held: list[int] = []

    def hold_one(host: int, packet: Packet) -> list[int]:
        if isinstance(packet.body, WriteBody) and not held and pair.now > 0:
            held.append(packet.ev)
            return [6 * ONE_WAY_NS]
        return [ONE_WAY_NS]

    transfer(pair)
    pair.rule = hold_one
    transfer_again(pair)
    changes = [(one.ev, one.new, one.why) for one in pair.of_kind(EvChanged)]
    assert changes == [
        (held[0], "ASSUMED_BAD", "a packet on it was lost"),
        (held[0], "SKIP", "the packet on it had arrived after all"),
    ]
