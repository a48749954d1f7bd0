"""What makes a packet lost, and what does not: other packets are the evidence, never the clock."""

from __future__ import annotations

import pytest

from agents.message import Message
from agents.mrc.config import MrcConfig
from agents.mrc.ev_set import Ev
from agents.mrc.loss import LossDetector
from agents.mrc.scoreboard import Fate, Scoreboard, Sent
from agents.transport import Write
from agents.wire import ev as ev_format

US = 1000
RTT = 10 * US
SLACK = RTT // 20  # two packets sent at once leave one after the other
MESSAGE = Message(Write(0, memoryview(bytes(1)), 0, 0), 0, 1, 0, 0)


class Sender:
    """A scoreboard and a detector; paths (0, 0), (0, 1), (1, 0) have a round trip of RTT."""

    def __init__(self, **settings: int) -> None:
        self.board = Scoreboard(0, 2)
        self.detector = LossDetector(MrcConfig(**settings), self.board, 2)
        self.a, self.b, self.other_plane = (Ev(ev_format.make(*path)) for path in ((0, 0), (0, 1), (1, 0)))
        self.next_psn = 0
        self.now = 0
        for _ in range(30):  # round trips that settle the estimates
            for ev in (self.a, self.b, self.other_plane):
                self.arrive(self.send(ev))
            self.now += RTT

    def send(self, ev: Ev, after: int = 0) -> Sent:
        record = self.board.sent(self.next_psn, MESSAGE, 1, ev, self.now + after)
        self.next_psn += 1
        return record

    def arrive(self, record: Sent, rtt: int = RTT) -> None:
        self.board.acknowledge(self.board.una - 1, record.psn, 1)
        record.fate = Fate.ARRIVED
        self.detector.arrived(record, record.sent_ns + rtt)

    def lost(self, base: int | None = None) -> list[tuple[Sent, str]]:
        """The verdicts of a report that covers all, or 64 PSNs from `base` on."""
        cack = self.board.una - 1
        found = list(self.detector.lost(cack, self.next_psn - 60 if base is None else base))
        for record, _ in found:
            self.board.lose(record, blame=True)
        return found


def test_two_later_packets_of_the_same_ev_overtake() -> None:
    sender = Sender()
    first, second, third = (sender.send(sender.a, after) for after in (0, 1, 2))
    sender.arrive(second)
    assert sender.lost() == []
    sender.arrive(third)
    assert sender.lost() == [(first, "overtaken")]


def test_later_packets_of_other_paths_do_not() -> None:
    sender = Sender()
    sender.send(sender.a)
    for after in range(1, 6):
        sender.arrive(sender.send(sender.b, after))
        sender.arrive(sender.send(sender.other_plane, after))
    assert sender.lost() == []


@pytest.mark.parametrize("later", [1, 2, 3, 4])
def test_half_a_round_trip_later_counts_the_third_packet_of_the_plane(later: int) -> None:
    sender = Sender()
    settle(sender)
    sender.now += 2 * RTT
    record = sender.send(sender.a)
    for _ in range(later):
        last = sender.send(sender.b, after=RTT // 2 + 4 * SLACK)
    for _ in range(4):
        sender.arrive(sender.send(sender.other_plane, after=RTT // 2))  # of another plane is no packet of this one
    assert sender.lost() == []
    sender.arrive(last)  # the ones before it need not have
    assert sender.lost() == ([(record, "overdue")] if later >= 3 else [])


def test_half_a_round_trip_is_the_window_however_late_packets_have_been() -> None:
    sender = Sender()
    settle(sender)
    be_late(sender, RTT * 45 // 100)
    sender.now += 2 * RTT
    record = sender.send(sender.a)
    for _ in range(3):
        sender.arrive(sender.send(sender.b, after=RTT // 2 - 4 * SLACK))
    assert sender.lost() == []
    window = sender.detector.window_ns(sender.a)
    assert window == pytest.approx(RTT / 2, rel=0.1)
    sender.arrive(sender.send(sender.b, after=RTT // 2 + 4 * SLACK))
    assert sender.lost() == [(record, "overdue")]


def test_a_reliability_probe_stands_for_the_packets_that_nobody_sent() -> None:
    sender = Sender()
    settle(sender)
    sender.now += 2 * RTT
    record = sender.send(sender.a)
    sender.detector.probe_answered(sender.b, sender.now + RTT, sender.now + 2 * RTT)
    assert sender.lost() == [(record, "overdue")]


def test_before_enough_is_known_of_a_plane_one_later_packet_counts() -> None:
    sender = Sender()
    record = sender.send(sender.a)
    sender.arrive(sender.send(sender.b, RTT // 2 - SLACK))
    assert sender.lost() == []
    sender.arrive(sender.send(sender.b, RTT // 2 + SLACK))
    assert sender.lost() == [(record, "overdue")]


def test_a_packet_of_another_plane_counts_half_a_round_trip_later_still() -> None:
    sender = Sender()
    record = sender.send(sender.a)
    sender.arrive(sender.send(sender.other_plane, RTT - SLACK))
    assert sender.lost() == []
    sender.arrive(sender.send(sender.other_plane, RTT + SLACK))
    assert sender.lost() == [(record, "overdue")]


@pytest.mark.parametrize("settled", [False, True])
def test_a_late_reader_condemns_nobody(settled: bool) -> None:
    sender = Sender()
    if settled:
        settle(sender)
    for after in range(5):
        sender.send(sender.a, after)
    for after in range(5):  # read a hundred round trips too late
        sender.arrive(sender.send(sender.b, after), rtt=100 * RTT)
        assert sender.lost() == []


def test_nor_does_it_condemn_another_plane() -> None:
    sender = Sender()
    sender.send(sender.other_plane)
    sender.arrive(sender.send(sender.b, after=1), rtt=100 * RTT)
    assert sender.lost() == []


def test_an_overdue_packet_that_no_report_covers_is_not_lost() -> None:
    sender = Sender()
    sender.send(sender.a)  # the first hole is always covered, so another one is looked at
    hole = sender.send(sender.a)
    sender.arrive(sender.send(sender.b, after=2 * RTT))
    assert hole not in [record for record, _ in sender.lost(base=hole.psn + 1)]
    assert hole in [record for record, _ in sender.lost(base=hole.psn)]


def test_what_no_report_covers_is_not_lost() -> None:
    sender = Sender()
    front = sender.send(sender.b)  # keeps the cumulative ack away from the hole
    hole, *later = (sender.send(sender.a, after) for after in range(4))
    for record in later:
        sender.arrive(record)
    assert sender.lost(base=hole.psn + 1) == []
    assert sender.lost(base=hole.psn) == [(hole, "overtaken")]
    assert front.fate is Fate.FLYING


def test_the_first_hole_is_always_covered_by_the_cumulative_ack() -> None:
    sender = Sender()
    sender.board.acknowledge(sender.next_psn - 1, 0, 0)
    hole, *later = (sender.send(sender.a, after) for after in range(3))
    for record in later:
        sender.arrive(record)
    assert sender.lost(base=hole.psn + 64) == [(hole, "overtaken")]


def test_patience_grows_with_what_a_path_swings_and_with_mistakes() -> None:
    sender = Sender()
    calm = sender.detector.patience_ns(sender.a)
    assert RTT < calm < 2 * RTT
    for number in range(20):
        sender.arrive(sender.send(sender.a), rtt=RTT + number % 2 * RTT)
    swinging = sender.detector.patience_ns(sender.a)
    assert swinging > 3 * RTT
    before = sender.detector.patience_ns(sender.other_plane)
    sender.detector.was_wrong()
    assert before < sender.detector.patience_ns(sender.other_plane) < 2 * before


def settle(sender: Sender) -> None:
    """So many packets of plane 0 that what is late there is known."""
    for _ in range(600):
        sender.now += RTT // 10
        sender.arrive(sender.send(sender.b))


def margin_of(sender: Sender) -> float:
    """The reorder window of path a, in round trips."""
    detector = sender.detector
    return (detector.patience_ns(sender.a) - detector.expected_ns(sender.a)) / detector._planes[0].rtt_ns


def be_late(sender: Sender, by: int) -> None:
    """One packet of path a is reported behind one that was sent later by so much, as a fabric would."""
    sender.now += 2 * RTT
    late = sender.send(sender.a)
    sender.arrive(sender.send(sender.b, after=by))
    sender.arrive(late, rtt=RTT + by)


@pytest.mark.parametrize(("late", "margin"), [(0.2, 0.5), (0.4, 0.6), (0.45, 0.675), (0.8, 0.75)])
def test_the_reorder_window_is_what_was_late_and_half_as_much_within_bounds(late: float, margin: float) -> None:
    sender = Sender()
    settle(sender)
    be_late(sender, round(late * RTT))
    for _ in range(30):  # the averages forget it, and the window does not
        sender.now += RTT // 10
        sender.arrive(sender.send(sender.a))
    assert margin_of(sender) == pytest.approx(margin, abs=0.02)


def test_the_reorder_window_follows_the_latest_of_at_least_512_and_at_most_1024_packets() -> None:
    sender = Sender()
    settle(sender)
    be_late(sender, RTT * 4 // 10)
    margins = []
    for _ in range(1024):
        sender.now += RTT // 10
        sender.arrive(sender.send(sender.b))
        margins.append(margin_of(sender))
    assert all(margin == pytest.approx(0.6, abs=0.02) for margin in margins[30:512])
    assert margins[-1] == pytest.approx(0.5, abs=0.02)


def test_patience_never_less_than_a_few_packets_of_queue() -> None:
    sender = Sender(reorder_floor_ns=RTT)
    settle(sender)
    assert margin_of(sender) == pytest.approx(1, abs=0.02)


def test_what_is_taken_for_lost_and_arrives_makes_it_more_patient_up_to_a_bound_and_for_a_while() -> None:
    sender = Sender()
    settle(sender)
    for _ in range(20):
        sender.detector.was_wrong()
    assert margin_of(sender) == pytest.approx(4 / 2, abs=0.02)
    for _ in range(4096):
        sender.now += RTT // 10
        sender.arrive(sender.send(sender.b))
    assert 0.5 < margin_of(sender) < 0.6 * 4 / 2


def test_a_path_that_is_slower_than_its_plane_is_expected_later() -> None:
    sender = Sender()
    for _ in range(10):
        sender.now += RTT
        sender.arrive(sender.send(sender.a), rtt=2 * RTT)
        settle(sender)
    assert sender.detector.patience_ns(sender.a) - sender.detector.patience_ns(sender.b) > 0.8 * RTT


def test_a_report_within_less_than_any_round_trip_speaks_of_an_earlier_transmission() -> None:
    sender = Sender()
    record = sender.send(sender.a)
    assert sender.detector.too_soon(record, record.sent_ns + RTT * 9 // 10)
    assert not sender.detector.too_soon(record, record.sent_ns + RTT)


def test_after_a_loss_the_other_paths_of_the_plane_are_given_more_time_until_it_is_back() -> None:
    sender = Sender()
    sender.now += RTT
    before = {ev: sender.detector.patience_ns(ev) for ev in (sender.a, sender.b, sender.other_plane)}
    record = sender.send(sender.a)
    sender.arrive(sender.send(sender.b, after=RTT))
    assert sender.lost() == [(record, "overdue")]
    after = {ev: sender.detector.patience_ns(ev) for ev in before}
    assert after[sender.a] == pytest.approx(before[sender.a], rel=0.02)
    assert after[sender.b] > 1.1 * before[sender.b]
    assert after[sender.other_plane] == before[sender.other_plane]
    sender.a.usable = False  # retired: as long as it is, its traffic is on the others
    sender.now += 20 * RTT
    sender.lost()
    sender.arrive(sender.send(sender.b))
    sender.lost()
    assert sender.detector.patience_ns(sender.b) == pytest.approx(after[sender.b], rel=0.02)
    sender.a.usable = True  # and when it is back their queues are still long
    sender.now += 4 * RTT
    sender.arrive(sender.send(sender.b))
    assert sender.lost() == [] and sender.detector.patience_ns(sender.b) > 1.1 * before[sender.b]
    sender.now += 8 * RTT
    sender.arrive(sender.send(sender.b))
    assert sender.detector.patience_ns(sender.b) == pytest.approx(before[sender.b], rel=0.02)


def test_a_packet_behind_another_in_its_port_leaves_later() -> None:
    sender = Sender()
    sender.now += RTT
    first, second, third = (sender.send(ev) for ev in (sender.a, sender.b, sender.other_plane))
    assert first.departs_ns == third.departs_ns == sender.now
    held_ns = second.departs_ns - sender.now
    assert 0 < held_ns <= RTT // 4
    assert sender.send(sender.a, after=held_ns).departs_ns == sender.now + 2 * held_ns


def test_a_packet_holds_a_port_for_a_quarter_of_the_shortest_round_trip_at_most() -> None:
    sender = Sender()
    assert sender.board.packet_ns == 12 * US * 4096 // 150_000
    sender.arrive(sender.send(sender.other_plane), rtt=400)
    assert sender.board.packet_ns == 100


def test_an_ev_not_used_for_long_is_as_patient_as_its_plane() -> None:
    sender = Sender()
    for _ in range(30):
        sender.arrive(sender.send(sender.b), rtt=5 * RTT)
    assert sender.detector.patience_ns(sender.a) > 5 * RTT


def test_first_overdue_is_that_of_the_oldest() -> None:
    sender = Sender()
    sender.board.acknowledge(sender.next_psn - 1, 0, 0)
    assert sender.detector.first_overdue_ns() is None
    record = sender.send(sender.b)
    sender.send(sender.a, after=5)
    assert sender.detector.first_overdue_ns() == record.sent_ns + sender.detector.patience_ns(sender.b)


def test_a_packet_that_is_back_before_it_can_have_waited_for_the_one_before_it_did_not_wait() -> None:
    sender = Sender()
    first, second = sender.send(sender.a), sender.send(sender.b)
    assert second.departs_ns > second.sent_ns
    soon_ns = (second.departs_ns - second.sent_ns) // 2
    sender.board.acknowledge(sender.board.una - 1, first.psn, 3)
    first.fate = second.fate = Fate.ARRIVED
    assert sender.detector.arrived(first, first.sent_ns + soon_ns) == soon_ns
    assert sender.detector.arrived(second, second.sent_ns + soon_ns) == soon_ns


def test_the_more_paths_share_what_a_lost_one_carried_the_less_more_time_they_are_given() -> None:
    def stretch(paths: int) -> float:
        sender = Sender()
        sender.now += RTT
        for path in range(2, paths):
            sender.arrive(sender.send(Ev(ev_format.make(0, path))))
        before = sender.detector.patience_ns(sender.b) - sender.detector.expected_ns(sender.b)
        plane = sender.detector._planes[0]
        plane.shaken_by, plane.shaken_ns = sender.a, plane.front_ns + 1
        return (sender.detector.patience_ns(sender.b) - sender.detector.expected_ns(sender.b)) / before

    assert [stretch(paths) for paths in (2, 4, 8, 32)] == pytest.approx([2, 2, 1.5, 1.125], rel=1e-3)
