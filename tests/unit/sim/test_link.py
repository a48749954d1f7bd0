"""A direction of a cable: its rate, its queue, its order, and each of its faults."""

import random
from typing import Any

import pytest

from testbed.sim.events import EventList
from testbed.sim.link import Link, LinkSpec, SimPacket
from testbed.topology.sizes import ETHERNET_HEADER_BYTES


class Cable:
    """A link whose far end writes down (time, packet)."""

    def __init__(self, seed: int = 1, **spec: Any) -> None:
        self.events = EventList()
        self.arrived: list[tuple[int, SimPacket]] = []
        self.link = Link(
            8 * 10**9,  # a byte each nanosecond
            LinkSpec(**{"delay_ns": 1000} | spec),
            self.events,
            random.Random(seed),
            lambda packet: self.arrived.append((self.events.now, packet)),
        )

    def send(self, size: int = 100, control: bool = False, number: int = 0) -> None:
        """A packet of `size` bytes on the wire, Ethernet header included."""
        self.link.send(SimPacket(number.to_bytes(2, "big") + bytes(size - 2 - ETHERNET_HEADER_BYTES), control, ()))

    def finish(self) -> list[int]:
        """The numbers that arrived, in order."""
        while self.events.do_next_event():
            pass
        return [int.from_bytes(packet.data[:2], "big") for _, packet in self.arrived]


def test_rate_and_delay() -> None:
    cable = Cable()
    for number in range(3):
        cable.send(size=500, number=number)
    assert cable.finish() == [0, 1, 2]
    assert [time_ns for time_ns, _ in cable.arrived] == [1500, 2000, 2500]


def test_control_goes_first_and_is_never_refused() -> None:
    cable = Cable(queue_bytes=200)
    for number in range(5):
        cable.send(number=number)
    for number in range(10, 15):
        cable.send(control=True, number=number)
    # 0 is being sent; it counts until it has left, so that 1 fits and 2, 3, 4 do not
    assert cable.finish() == [0, 10, 11, 12, 13, 14, 1]
    assert cable.link.counts["queue full"] == 3


def test_a_packet_larger_than_the_queue_still_passes_an_empty_one() -> None:
    cable = Cable(queue_bytes=10)
    cable.send(size=100, number=7)
    assert cable.finish() == [7]


@pytest.mark.parametrize(
    ("fault", "count", "arrivals"),
    [("loss", "lost", 0.7), ("duplicate", "duplicated", 1.3), ("corrupt", "corrupted", 1)],
)
def test_faults_come_as_often_as_asked(fault: str, count: str, arrivals: float) -> None:
    probabilities: dict[str, Any] = {fault: 0.3}
    cable = Cable(**probabilities)
    for number in range(2000):
        cable.send(number=number)
    assert len(cable.finish()) == pytest.approx(2000 * arrivals, rel=0.1)
    assert cable.link.counts[count] == pytest.approx(600, rel=0.1)


def test_without_reordering_the_order_stays_with_it_nothing_is_lost() -> None:
    calm, rough = Cable(loss=0.2, duplicate=0.2), Cable(reorder=0.2)
    for cable in (calm, rough):
        for number in range(500):
            cable.send(number=number)
        cable.finish()
    assert calm.finish() == sorted(calm.finish())
    assert rough.finish() != sorted(rough.finish()) and sorted(rough.finish()) == list(range(500))


def test_one_flipped_bit_where_the_icrc_sees_it() -> None:
    cable = Cable(corrupt=1)
    cable.send(size=200)
    cable.finish()
    data = cable.arrived[0][1].data
    flipped = [at for at, value in enumerate(data) if value]
    assert len(flipped) == 1 and flipped[0] >= 48
    assert data[flipped[0]].bit_count() == 1


def test_a_dead_link_is_silent_and_comes_back() -> None:
    cable = Cable()
    cable.link.dead = True
    cable.send(number=1)
    assert cable.finish() == []
    cable.link.dead = False
    cable.send(number=2)
    assert cable.finish() == [2]


def test_a_cut_loses_what_is_queued_and_on_the_way() -> None:
    cable = Cable()
    for number in range(4):
        cable.send(size=500, number=number)
    cable.events.run(until=lambda: False, deadline_ns=1_200)  # 0, 1 on the way; 2 being sent, 3 queued
    cable.link.cut()
    cable.send(size=500, number=4)
    cable.link.mend()
    cable.send(size=500, number=5)
    assert cable.finish() == [5]
    assert cable.link.counts["cut"] == 5


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[tuple[int, SimPacket]]:
        cable = Cable(seed=seed, loss=0.1, duplicate=0.1, reorder=0.1, corrupt=0.1)
        for number in range(300):
            cable.send(number=number)
        cable.finish()
        return cable.arrived

    assert run(5) == run(5)
    assert run(5) != run(6)
