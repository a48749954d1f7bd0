"""agents.rawio on real veths: what is taken in, what is refused, what is seen of the carrier."""

from __future__ import annotations

import re
import select
import subprocess
from collections.abc import Iterator

import pytest
from cable import Cable, wait_until

from agents.rawio.batch import Inbox
from agents.rawio.carrier import CarrierMonitor
from agents.rawio.port import BufferSizes, Port, Sent

pytestmark = pytest.mark.kernel


@pytest.fixture
def cable() -> Iterator[Cable]:
    cable = Cable()
    try:
        yield cable
    finally:
        cable.remove()


@pytest.fixture
def ends(cable: Cable) -> Iterator[tuple[Port, Port]]:
    """Port 0 of both ends."""
    opened = []
    try:
        for end in "ab":
            with cable.inside(end):
                opened.append(Port(cable.specs(end)[0]))
        yield opened[0], opened[1]
    finally:
        for port in opened:
            port.close()


def packet(
    payload: bytes = bytes(4096), *, next_header: int = 41, inner_next_header: int = 17, udp_port: int = 4791
) -> bytes:
    """The two IPv6 headers and the UDP header, as far as the filter looks at them, and a payload."""
    outer = bytes([0x60, 0, 0, 0]) + (48 + len(payload)).to_bytes(2, "big") + bytes([next_header, 64]) + bytes(32)
    inner = bytes([0x60, 0, 0, 0]) + (8 + len(payload)).to_bytes(2, "big") + bytes([inner_next_header, 64]) + bytes(32)
    udp = bytes([0xC0, 0]) + udp_port.to_bytes(2, "big") + (8 + len(payload)).to_bytes(2, "big") + bytes(2)
    return outer + inner + udp + payload


def received(port: Port, count: int) -> list[bytes]:
    """`count` packets, waited for."""
    inbox = Inbox(4, 16 << 10)
    packets: list[bytes] = []

    def enough() -> bool:
        while found := port.receive(inbox, inbox.size):
            packets.extend(map(bytes, found))
        return len(packets) >= count

    wait_until(enough)
    return packets


def nothing_more(port: Port) -> bool:
    return port.receive(Inbox(1, 16 << 10), 1) == []


def class_packets(cable: Cable, end: str, classid: str) -> int:
    """What an HTB class of port 0 has sent, by the kernel's count."""
    command = ["tc", "-n", cable.namespaces[end], "-s", "class", "show", "dev", "eth0"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    match = re.search(rf"class htb {classid} .*\n Sent \d+ bytes (\d+) pkt", text)
    assert match, text
    return int(match[1])


def fill(port: Port, limit: int = 1000) -> int:
    """Send until the port refuses; the number of packets it took."""
    for count in range(limit):
        if port.send([packet()], control=False) is Sent.FULL:
            return count
    raise AssertionError(f"took {limit} packets and more")


def test_a_packet_arrives_as_it_was_sent_though_it_came_in_pieces(ends: tuple[Port, Port]) -> None:
    near, far = ends
    whole = packet(b"mrc" * 1000)
    assert near.send([whole[:88], memoryview(whole)[88:1000], whole[1000:]], control=False) is Sent.YES
    assert received(far, 1) == [whole]
    assert far.counters.packets_received == near.counters.packets_sent == 1
    assert nothing_more(near), "a port hears what it sends"


def test_only_the_agents_packets_are_taken(cable: Cable, ends: tuple[Port, Port]) -> None:
    near, far = ends
    for other in (packet(b"", next_header=43), packet(b"", inner_next_header=6), packet(b"", udp_port=4790), b"short"):
        assert near.send([other], control=False) is Sent.YES
    subprocess.run(["ip", "netns", "exec", cable.namespaces["a"], "ping", "-6", "-c1", "-W1", "ff02::1%eth0"],
                   check=False, capture_output=True)  # fmt: skip
    ours = packet(b"ours")
    near.send([ours], control=False)
    assert received(far, 1) == [ours]


def test_packets_without_an_outer_header_are_taken_too(ends: tuple[Port, Port]) -> None:
    near, far = ends
    bare = packet(b"ours")[40:]
    for other in (packet(b"", udp_port=4790)[40:], packet(b"", inner_next_header=6)[40:]):
        assert near.send([other], control=False) is Sent.YES
    near.send([bare], control=False)
    assert received(far, 1) == [bare]


def test_another_udp_port_can_be_agreed_on(cable: Cable, ends: tuple[Port, Port]) -> None:
    with cable.inside("b"):
        other = Port(cable.specs("b")[0], udp_port=4971)
    try:
        for number in (4791, 4971):
            ends[0].send([packet(udp_port=number)], control=False)
        assert received(other, 1) == [packet(udp_port=4971)]
        assert received(ends[1], 1) == [packet()]
    finally:
        other.close()


def test_each_class_goes_to_its_htb_class(cable: Cable, ends: tuple[Port, Port]) -> None:
    near, far = ends
    before = {classid: class_packets(cable, "a", classid) for classid in ("1:1", "1:10")}
    for control in (True, True, True, False):
        near.send([packet(b"short")], control=control)
    received(far, 4)
    assert class_packets(cable, "a", "1:1") - before["1:1"] == 3
    assert class_packets(cable, "a", "1:10") - before["1:10"] == 1


def test_a_receive_buffer_that_overflows_is_counted(cable: Cable) -> None:
    with cable.inside("a"):
        near = Port(cable.specs("a")[0])
    with cable.inside("b"):
        far = Port(cable.specs("b")[0], buffers=BufferSizes(receive_bytes=30_000))
    try:
        for _ in range(100):
            wait_until(lambda: near.send([packet()], control=False) is Sent.YES)
        wait_until(lambda: class_packets(cable, "a", "1:10") >= 100)
        taken = 0

        def all_are_accounted_for() -> bool:
            nonlocal taken
            taken += len(received(far, 0))
            return taken + far.read_drops() == 100

        wait_until(all_are_accounted_for)
        assert far.read_drops() == 100 - taken > 50
    finally:
        near.close()
        far.close()


def test_a_busy_port_refuses_early_and_says_when_it_has_room(ends: tuple[Port, Port]) -> None:
    near, far = ends
    taken = fill(near)
    assert 2 <= taken <= 20, "few packets wait behind the choice of a path, or it is made too early"
    room = select.poll()
    room.register(near.data_sender, select.POLLOUT)
    assert room.poll(5000)
    assert near.send([packet()], control=False) is Sent.YES
    assert len(received(far, taken + 1)) == taken + 1, "a packet that was refused was sent all the same"


def test_control_goes_ahead_of_the_data_that_waits(ends: tuple[Port, Port]) -> None:
    near, far = ends
    taken = fill(near)
    assert near.send([packet(b"control")], control=True) is Sent.YES
    packets = received(far, taken + 1)
    assert packet(b"control") in packets[:-1]


def test_a_full_control_socket_drops_and_counts(cable: Cable) -> None:
    with cable.inside("a"):
        port = Port(cable.specs("a")[0], buffers=BufferSizes(control_bytes=3000))
    try:
        results = [port.send([packet()], control=True) for _ in range(50)]
        assert set(results) == {Sent.YES, Sent.LOST}
        assert port.counters.control_refused == results.count(Sent.LOST)
    finally:
        port.close()


@pytest.mark.parametrize("end", ["a", "b"])
def test_each_edge_of_the_carrier_is_seen_at_once_also_the_tenth(cable: Cable, end: str) -> None:
    """`end` goes down; port 1 of end a watches. Netlink would tell of the later ones up to a second late."""
    with cable.inside("a"):
        monitor = CarrierMonitor(["eth0", "eth1"])
    try:
        assert monitor.up == [True, True]
        for _ in range(10):
            cable.set_link(end, 1, "down")
            assert monitor.edges() == [(1, False)]
            assert monitor.edges() == []
            cable.set_link(end, 1, "up")
            assert monitor.edges() == [(1, True)]
    finally:
        monitor.close()


def test_a_port_that_has_just_been_heard_of_is_not_asked(cable: Cable) -> None:
    with cable.inside("a"):
        monitor = CarrierMonitor(["eth0", "eth1"])
    cable.set_link("a", 1, "down")
    assert monitor.edges([False, True]) == []
    assert monitor.edges([True, False]) == [(1, False)]
    cable.set_link("a", 1, "up")
    assert monitor.edges([True, True]) == [(1, True)], "one that was down is asked all the same"
    monitor.close()


def test_an_interface_that_is_not_there_has_no_carrier(cable: Cable) -> None:
    with cable.inside("a"):
        monitor = CarrierMonitor(["eth0", "eth9"])
    assert monitor.up == [True, False]
    monitor.close()


def test_a_port_that_is_down_loses_packets_and_works_again_when_it_is_up(cable: Cable, ends: tuple[Port, Port]) -> None:
    near, far = ends
    cable.set_link("a", 0, "down")
    assert near.send([packet()], control=False) is Sent.LOST
    assert near.send([packet()], control=True) is Sent.LOST
    assert near.counters.send_errors == {"ENETDOWN": 2}
    assert nothing_more(near)
    cable.set_link("a", 0, "up")
    for one, other in ((near, far), (far, near)):
        one.send([packet(b"again")], control=False)
        assert received(other, 1) == [packet(b"again")]
