"""A port and its cable: rate, queue, marks, trimming, order, and each of the faults."""

import random
from dataclasses import replace
from typing import Any

import pytest

from agents.wire import address, dscp, ev, frame
from agents.wire.headers import Opcode, ReliabilityProbe
from agents.wire.packet import WireError, Write, parse
from testbed.sim.events import EventList
from testbed.sim.link import CableSpec, Link
from testbed.sim.packet import Path, SimPacket
from testbed.topology.port_settings import PortSettings
from testbed.topology.sizes import ETHERNET_HEADER_BYTES

USIDS = address.path_usids(0, 0, 2, 1, 3)
EV = ev.make(0, 2, 5)
TEMPLATE = frame.PathTemplate(src=address.host_address(0), dst=address.host_address(7), usids=USIDS, ev=EV)
PATH = Path((None,) * 4, USIDS, address.sid_address(address.DEFAULT_BLOCK, USIDS[-1]), "h7", 0)
PORT = PortSettings(device="p0t1-2", limit_bytes=1 << 20, control_extra_bytes=0, rate_bps=8 * 10**9, burst_ns=0)
CONTROL_BYTES = 100 + 4 + 4 + ETHERNET_HEADER_BYTES


def write(number: int, payload_bytes: int, packet_class: int = dscp.TRIMMABLE) -> SimPacket:
    """A WRITE with that PSN."""
    data = b"".join(
        frame.write(
            TEMPLATE,
            dscp=packet_class,
            dest_qp=17,
            psn=number,
            opcode=Opcode.WRITE_ONLY,
            msn=1,
            rqmsn=0,
            address=64,
            rkey=9,
            length=payload_bytes,
            payload=bytes(payload_bytes),
            tx_timestamp=3,
        )
    )
    return SimPacket(data, PATH)


def control(number: int) -> SimPacket:
    """A control packet with that PSN."""
    return SimPacket(
        b"".join(
            frame.control(
                TEMPLATE, dest_qp=17, psn=number, opcode=Opcode.RELIABILITY_PROBE, body=ReliabilityProbe(number)
            )
        ),
        PATH,
    )


class Cable:
    """A port of 1 byte a nanosecond whose far end writes down (time, packet)."""

    def __init__(self, seed: int = 1, cable: CableSpec | None = None, **port: Any) -> None:
        self.events = EventList()
        self.arrived: list[tuple[int, SimPacket]] = []
        self.link = Link(
            replace(PORT, **port),
            cable or CableSpec(delay_ns=1000),
            self.events,
            random.Random(seed),
            lambda packet: self.arrived.append((self.events.now, packet)),
        )

    def send(self, number: int = 0, payload_bytes: int = 100) -> None:
        self.link.send(write(number, payload_bytes))

    def finish(self) -> list[int]:
        """The PSNs that arrived, in order."""
        while self.events.do_next_event():
            pass
        return [int.from_bytes(packet.data[97:100], "big") for _, packet in self.arrived]

    def received(self) -> list[Any]:
        """What arrived, decoded as the far host would."""
        self.finish()
        return [parse(packet.as_received()) for _, packet in self.arrived]


def test_rate_and_delay() -> None:
    cable = Cable()
    size = write(0, 300).size
    for number in range(3):
        cable.send(number, payload_bytes=300)
    assert cable.finish() == [0, 1, 2]
    assert [time_ns for time_ns, _ in cable.arrived] == [1000 + size, 1000 + 2 * size, 1000 + 3 * size]


def test_a_new_rate_holds_from_the_next_packet_on() -> None:
    cable = Cable()
    cable.send()
    cable.link.set_port(replace(PORT, rate_bps=PORT.rate_bps // 10))
    cable.send()
    cable.finish()
    (first_ns, packet), (second_ns, _) = cable.arrived
    assert (first_ns, second_ns) == (1000 + packet.size, 1000 + packet.size + 10 * packet.size)


def test_control_overtakes_all_but_the_packet_that_is_being_sent() -> None:
    cable = Cable()
    for number in range(3):
        cable.send(number)
    cable.events.run_to(write(0, 100).size + 10)  # the second is being sent
    for number in range(10, 13):
        cable.link.send(control(number))
    cable.send(3)
    assert cable.finish() == [0, 1, 10, 2, 11, 12, 3], "what waited keeps its time"
    times = {int.from_bytes(packet.data[97:100], "big"): time_ns for time_ns, packet in cable.arrived}
    data_bytes, control_bytes = write(0, 100).size, control(0).size
    assert times[10] == 1000 + 2 * data_bytes + control_bytes, "right behind the second"
    assert times[12] == times[10] + 2 * control_bytes
    assert times[3] == 1000 + 4 * data_bytes + 3 * control_bytes, "all of it takes its time"


def test_a_full_queue_drops_data_and_has_room_left_for_control() -> None:
    size = write(0, 100).size
    cable = Cable(limit_bytes=3 * size, control_extra_bytes=2 * control(0).size)
    for number in range(5):
        cable.send(number)
    for number in range(10, 14):
        cable.link.send(control(number))
    assert sorted(cable.finish()) == [0, 1, 2, 10, 11]
    assert cable.link.counts["queue full"] == 4


def test_room_at_is_when_a_packet_will_fit() -> None:
    size = write(0, 100).size
    cable = Cable()
    limit_bytes = 2 * size
    assert cable.link.room_at_ns(size, limit_bytes) <= 0
    for number in range(4):
        cable.send(number)
    assert cable.link.room_at_ns(size, limit_bytes) == 3 * size
    assert cable.link.room_at_ns(10 * size, limit_bytes) == 4 * size, "what is too long for the queue waits for none"
    cable.events.run_to(3 * size)
    assert cable.link.depth_bytes() == size


def test_marks_rise_from_kmin_to_kmax() -> None:
    size = write(0, 100).size
    marked: dict[int, int] = {}
    for seed in range(400):
        cable = Cable(seed=seed, ecn=True, kmin_bytes=2 * size, kmax_bytes=6 * size, pmax=0.8)
        for number in range(8):
            cable.send(number)
        for packet in cable.received():
            marked[packet.psn] = marked.get(packet.psn, 0) + (packet.ecn == dscp.CE)
    shares = [marked[number] / 400 for number in range(8)]
    assert shares[:3] == [0, 0, 0], "up to Kmin none"
    assert shares[3:6] == pytest.approx([0.2, 0.4, 0.6], abs=0.08)
    assert shares[6:] == [1, 1], "from Kmax on all"


def test_an_ecn_threshold_of_zero_marks_everything_but_control() -> None:
    cable = Cable(ecn=True)
    cable.send(1)
    cable.events.run_to(10_000)
    cable.link.send(control(2))
    assert [packet.ecn for packet in cable.received()] == [dscp.CE, dscp.NOT_ECT]


@pytest.mark.parametrize(("last_hop", "says"), [(False, dscp.TRIMMED), (True, dscp.TRIMMED_LASTHOP)])
def test_what_finds_the_queue_too_long_loses_its_payload_and_goes_first(last_hop: bool, says: int) -> None:
    size = write(0, 4096).size
    cable = Cable(trimming=True, trim_at_bytes=2 * size, last_hop=last_hop)
    for number in range(4):
        cable.send(number, payload_bytes=4096)
    packets = {packet.psn: packet for packet in cable.received()}
    assert cable.finish() == [0, 2, 3, 1]
    assert [packets[number].trimmed for number in range(4)] == [False, False, True, True]
    assert packets[2].dscp == says
    body = packets[2].body
    assert isinstance(body, Write)
    assert (body.address, body.rkey, body.length, body.tx_timestamp, bytes(body.payload)) == (64, 9, 4096, 3, b"")
    assert packets[2].ev == EV


def test_only_trimmable_writes_are_trimmed() -> None:
    cable = Cable(trimming=True, trim_at_bytes=10)
    cable.link.send(write(0, 100, dscp.NO_TRIM))
    cable.link.send(control(1))
    cable.link.send(write(2, 100, dscp.TRIMMABLE_RETX))
    assert {packet.psn: packet.trimmed for packet in cable.received()} == {0: False, 1: False, 2: True}


@pytest.mark.parametrize(
    ("fault", "count", "arrivals"),
    [
        ({"loss": 0.3}, "lost", 0.7),
        ({"match_kind": "ev", "match_value": EV, "match_loss": 0.3}, "lost", 0.7),
        ({"match_kind": "usid", "match_value": USIDS[1], "match_loss": 0.3}, "lost", 0.7),
        ({"cable": CableSpec(duplicate=0.3)}, "duplicated", 1.3),
        ({"cable": CableSpec(corrupt=0.3)}, "corrupted", 1),
    ],
)
def test_faults_come_as_often_as_asked(fault: dict[str, Any], count: str, arrivals: float) -> None:
    cable = Cable(limit_bytes=1 << 30, **fault)
    for number in range(2000):
        cable.send(number)
    assert len(cable.finish()) == pytest.approx(2000 * arrivals, rel=0.1)
    assert cable.link.counts[count] == pytest.approx(600, rel=0.1)


def test_loss_of_one_ev_or_usid_spares_the_others() -> None:
    for match in ({"match_kind": "ev", "match_value": EV + 1}, {"match_kind": "usid", "match_value": USIDS[0]}):
        cable = Cable(match_loss=1.0, **match)
        packet = write(1, 100)
        packet.at = 1  # its first uSID has been shifted out
        cable.link.send(packet)
        assert cable.finish() == [1]


@pytest.mark.parametrize(("kind", "arrives"), [("none", [1, 2]), ("data", [2]), ("all", [])])
def test_a_black_hole_is_silent_and_comes_back(kind: str, arrives: list[int]) -> None:
    cable = Cable(black_hole=kind)
    cable.send(1)
    cable.link.send(control(2))
    assert sorted(cable.finish()) == arrives
    cable.link.set_port(PORT)
    cable.send(3)
    assert sorted(cable.finish()) == [*arrives, 3]


def test_without_reordering_the_order_stays_with_it_nothing_is_lost() -> None:
    calm, rough = Cable(loss=0.2, cable=CableSpec(duplicate=0.2)), Cable(cable=CableSpec(reorder=0.2))
    for cable in (calm, rough):
        for number in range(500):
            cable.send(number)
        cable.finish()
    assert calm.finish() == sorted(calm.finish())
    assert rough.finish() != sorted(rough.finish()) and sorted(rough.finish()) == list(range(500))


def test_one_flipped_bit_where_the_icrc_sees_it() -> None:
    cable = Cable(cable=CableSpec(corrupt=1))
    sent = write(0, 200).data
    cable.send(0, payload_bytes=200)
    cable.finish()
    data = cable.arrived[0][1].data
    flipped = [(at, one ^ other) for at, (one, other) in enumerate(zip(data, sent, strict=True)) if one != other]
    assert len(flipped) == 1 and flipped[0][0] >= 48
    assert flipped[0][1].bit_count() == 1


def test_a_cut_loses_what_is_queued_and_on_the_way() -> None:
    cable = Cable()
    size = write(0, 300).size
    for number in range(4):
        cable.send(number, payload_bytes=300)
    cable.events.run_to(2 * size + 200)  # two are on the way, one is being sent, one waits
    cable.link.cut()
    cable.send(4)
    cable.link.mend()
    cable.send(5, payload_bytes=300)
    assert cable.finish() == [5]
    assert cable.arrived[0][0] == 2 * size + 200 + size + 1000, "nothing of before holds the line"
    assert cable.link.counts["cut"] == 5


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[tuple[int, bytes]]:
        cable = Cable(seed=seed, loss=0.1, cable=CableSpec(duplicate=0.1, reorder=0.1, corrupt=0.1))
        for number in range(300):
            cable.send(number)
        cable.finish()
        return [(time_ns, packet.data) for time_ns, packet in cable.arrived]

    assert run(5) == run(5)
    assert run(5) != run(6)


@pytest.mark.parametrize("unseen", [False, True])
def test_bits_flip_so_that_the_icrc_tells_or_does_not(unseen: bool) -> None:
    cable = Cable(corrupt=1.0, corrupt_unseen=unseen)
    cable.send(1, payload_bytes=4096)
    cable.link.send(control(2))
    if unseen:
        spoilt, told = cable.received()
        assert isinstance(spoilt.body, Write) and not isinstance(told.body, Write)
        assert sum(byte != 0 for byte in spoilt.body.payload) == 5
    else:
        with pytest.raises(WireError, match="icrc"):
            cable.received()
    assert cable.link.counts["corrupted"] == 1
