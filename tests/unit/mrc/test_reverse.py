"""The way back of reports: which EV, and how a queue pair that only receives finds out what works."""

from __future__ import annotations

from random import Random

from agents.mrc.config import MrcConfig
from agents.mrc.ev_set import Ev, EvSet, path_of
from agents.mrc.ev_state import Cause
from agents.mrc.reverse import ReverseSet
from agents.transport import Datagram
from agents.wire import ev as ev_format
from agents.wire.headers import EndpointRequest, Sack
from agents.wire.packet import Packet
from agents.wire.packet import Write as WriteBody
from tests.unit.mrc.scripted import ONE_WAY_NS, US, ScriptedPair

RTT, TIMEOUT = 12 * US, 24 * US
READY = 0b11


class Receiver:
    """Two planes with two EVs each; `asked` are the EVs that were probed."""

    def __init__(self) -> None:
        self.all = [[Ev(ev_format.make(plane, uplink)) for uplink in range(2)] for plane in range(2)]
        self.evs = EvSet(self.all, 2, Random(1), on_change=lambda *_: None)
        self.reverse = ReverseSet(MrcConfig(), self.evs, 2, Random(1), self._send)
        self.asked: list[Ev] = []

    def _send(self, ev: Ev, now: int) -> Datagram:
        self.asked.append(ev)
        return Datagram(ev.plane, False, ())

    def at(self, now: int, *, data: bool = True) -> int:
        """Let the time be `now`, with data coming in; how many probes went."""
        if data:
            self.reverse.heard(now)
        before = len(self.asked)
        self.reverse.handle_timer(now)
        if self.reverse.probe_wanted:
            self.reverse.poll(now, READY)
        return len(self.asked) - before


def test_while_data_comes_in_one_probe_a_round_trip_goes_out() -> None:
    receiver = Receiver()
    times = [0, RTT - 1, RTT, RTT + 1, 2 * RTT, 3 * RTT]
    assert [receiver.at(now) for now in times] == [0, 0, 1, 0, 1, 1]


def test_and_none_afterwards() -> None:
    receiver = Receiver()
    receiver.at(0)
    assert receiver.at(RTT) == 1
    for now in range(3 * RTT, 9 * RTT, RTT):
        assert receiver.at(now, data=False) == 0
    assert receiver.reverse.next_timer() is None


def test_nor_while_own_data_is_reported() -> None:
    receiver = Receiver()
    for now in range(0, 5 * RTT, RTT):
        receiver.reverse.proved(receiver.all[1][0].value, now)
        assert receiver.at(now) == 0
    assert receiver.reverse.ways == [None, receiver.all[1][0]]


def test_what_answers_is_adopted_by_its_plane() -> None:
    receiver = Receiver()
    for now in range(0, 40 * RTT, RTT):
        if receiver.at(now):
            receiver.reverse.answered(receiver.asked[-1].value, 5, False, now)
    assert set(receiver.asked) == {ev for plane in receiver.all for ev in plane}
    assert [way.plane for way in receiver.reverse.ways if way is not None] == [0, 1]


def test_a_report_goes_back_the_way_its_packet_came_until_that_is_known_not_to_work() -> None:
    receiver = Receiver()
    dead, alive = receiver.all[0]
    assert receiver.reverse.way_back(dead.value) is dead
    for now in range(0, 60 * RTT, RTT):
        if receiver.at(now) and receiver.asked[-1] is not dead:
            receiver.reverse.answered(receiver.asked[-1].value, 5, False, now)
    assert dead in receiver.asked
    assert receiver.reverse.way_back(dead.value) is alive
    receiver.reverse.answered(dead.value, 5, False, 60 * RTT)
    assert receiver.reverse.way_back(dead.value) is dead


def test_a_plane_that_is_down_or_an_ev_out_of_use_is_no_way_back() -> None:
    receiver = Receiver()
    first, second = receiver.all[0]
    receiver.evs.apply(first, Cause.DENY, 0)
    receiver.reverse.answered(second.value, 5, False, 0)
    assert receiver.reverse.way_back(first.value) is second
    receiver.reverse.answered(receiver.all[1][1].value, 5, False, 0)
    receiver.evs.set_planes_up(0b10)
    assert receiver.reverse.way_back(first.value) is receiver.all[1][1]
    receiver.evs.set_planes_up(0)
    assert receiver.reverse.way_back(first.value) is None


def test_unanswered_probes_of_a_plane_that_went_down_blame_no_path() -> None:
    receiver = Receiver()
    receiver.evs.set_planes_up(0b01)
    receiver.at(0)
    assert receiver.at(RTT) == 1
    receiver.evs.set_planes_up(0b10)
    for now in range(2 * RTT, 6 * RTT, RTT):
        receiver.at(now, data=False)
    receiver.evs.set_planes_up(0b11)
    asked = receiver.asked[0]
    assert receiver.reverse.way_back(asked.value) is asked


def test_reports_leave_a_path_that_is_dead_only_backwards() -> None:
    pair = ScriptedPair(planes=1, t1s=4, congestion="fixed", window_bytes=16 * 4096)
    dead = path_of(ev_format.make(0, 2))

    def rule(host: int, packet: Packet) -> list[int]:
        return [] if host == 1 and path_of(packet.ev) == dead else [ONE_WAY_NS]

    pair.rule = rule
    size = 2000 * 4096
    region = pair.nics[1].register_memory(size)
    pair.post(bytes(size), region)
    pair.run()
    assert pair.qps[0].idle and pair.qps[0].counters.packets_lost == 0
    reports = pair.sent(Sack, host=1)
    probes = pair.sent(EndpointRequest, host=1)
    assert probes and dead in {path_of(packet.ev) for packet in reports[:50]}
    assert dead not in {path_of(packet.ev) for packet in reports[-50:]}
    assert dead in {path_of(packet.ev) for packet in pair.sent(WriteBody)[-50:]}, "forwards it works"
