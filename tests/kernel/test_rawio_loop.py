"""agents.rawio.loop on real veths, with a scripted NIC: the order of things in a turn, back-pressure, carriers."""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from cable import Cable, wait_until
from test_rawio import packet, received

from agents.rawio import loop
from agents.rawio.loop import LATE_NS, Loop, now_ns
from agents.rawio.port import Port, Sent
from agents.transport import Buffer, Datagram, Event

pytestmark = pytest.mark.kernel


class ScriptedNic:
    """Sends what is in `outbox` while its port is ready, and writes down in `story` what it is told."""

    def __init__(self) -> None:
        self.story: list[tuple[object, ...]] = []
        self.outbox: deque[Datagram] = deque()
        self.ready = [True, True]
        self.timer_ns: int | None = None
        self.pending: list[Event] = []
        self.acknowledges = False
        self.idle = False

    def receive(self, port: int, data: memoryview, now: int) -> None:
        self.story.append(("received", port))
        self.pending.append(Event(0, now))
        if self.acknowledges:
            self.outbox.append(Datagram(port, True, (packet(b"acknowledgement"),)))

    def set_port_ready(self, port: int, ready: bool) -> None:
        self.ready[port] = ready

    def set_port_up(self, port: int, up: bool, now: int) -> None:
        self.story.append(("port", port, up))

    def next_timer(self) -> int | None:
        return self.timer_ns

    def handle_timer(self, now: int) -> None:
        self.story.append(("timer",))
        self.timer_ns = None

    def events(self) -> Iterator[Event]:
        while self.pending:
            yield self.pending.pop()

    def datagrams_to_send(self, now: int) -> Iterator[Datagram]:
        while self.outbox and (self.outbox[0].control or self.ready[self.outbox[0].port]):
            self.story.append(("sent", self.outbox[0].port))
            yield self.outbox.popleft()


class Witness:
    """An application that writes into the NIC's story."""

    def __init__(self, nic: ScriptedNic) -> None:
        self.nic = nic

    def on_event(self, event: Event, now: int) -> None:
        self.nic.story.append(("event",))

    def on_carrier(self, port: int, up: bool, now: int) -> None:
        self.nic.story.append(("carrier", port, up))

    def next_timer(self) -> int | None:
        return None

    def handle_timer(self, now: int) -> None:
        raise AssertionError("nothing was due")


class Bench:
    """Port 0 and 1 of end a under a loop; port 0 and 1 of end b in the test's hands."""

    def __init__(self, cable: Cable, rate_bps: int = 0) -> None:
        """`rate_bps`: of the ports of end a, as their makers believe; the lines carry 20 Mb/s."""
        self.cable = cable
        self.ports: dict[str, list[Port]] = {}
        for end in "ab":
            with cable.inside(end):
                self.ports[end] = [Port(replace(spec, rate_bps=rate_bps)) for spec in cable.specs(end)]
        self.nic = ScriptedNic()
        self.witness = Witness(self.nic)
        with cable.inside("a"):
            self.loop = Loop(self.nic, self.ports["a"], self.witness)

    def close(self) -> None:
        self.loop.close()
        for port in self.ports["a"] + self.ports["b"]:
            port.close()

    def turn_until_told(self, *chapter: object) -> None:
        """Turn until this is in the NIC's story."""
        self.turn_until(lambda: chapter in self.nic.story)

    def turn_until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        """Turn until the condition holds, without a rest of our own between turns; fails after `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not so within {seconds} s"
            self.loop.turn()


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    cable = Cable()
    try:
        bench = Bench(cable, getattr(request, "param", 0))
        try:
            yield bench
        finally:
            bench.close()
    finally:
        cable.remove()


# One by one, and in batches, of which the slow line refuses most.
single_and_in_batches = pytest.mark.parametrize("bench", [0, 400_000_000], indirect=True)


def numbered(count: int) -> list[bytes]:
    return [packet(number.to_bytes(4, "big") * 1000) for number in range(count)]


@single_and_in_batches
def test_all_datagrams_leave_in_order_though_the_port_is_full_most_of_the_time(bench: Bench) -> None:
    packets = numbered(60)
    bench.nic.outbox.extend(Datagram(0, False, (one[:88], one[88:])) for one in packets)
    arrived: list[bytes] = []

    def all_there() -> bool:
        arrived.extend(received(bench.ports["b"][0], 0))
        return len(arrived) >= len(packets)

    bench.turn_until(all_there)
    assert arrived == packets
    assert bench.ports["a"][0].counters.packets_sent == len(packets)
    assert bench.loop.counters.turns < 20 * len(packets), "it turned on the spot instead of waiting for room"
    before, end = bench.loop.counters.turns, now_ns() + 60_000_000
    bench.turn_until(lambda: now_ns() > end)
    assert bench.loop.counters.turns - before < 100, "it turns on the spot when there is room and nothing to send"


def test_a_full_port_holds_up_no_other_and_no_control_packet(bench: Bench) -> None:
    bench.nic.outbox.extend(Datagram(0, False, (one,)) for one in numbered(40))
    bench.loop.turn()
    assert not bench.nic.ready[0]
    bench.nic.outbox.clear()
    bench.nic.outbox.append(Datagram(1, False, (packet(b"other"),)))
    bench.nic.outbox.append(Datagram(0, True, (packet(b"control"),)))
    bench.loop.turn()
    assert received(bench.ports["b"][1], 1) == [packet(b"other")]
    assert packet(b"control") in received(bench.ports["b"][0], 3)
    bench.turn_until(lambda: bench.nic.ready[0])


def test_an_event_is_dealt_with_before_anything_is_sent(bench: Bench) -> None:
    bench.nic.acknowledges = True
    bench.ports["b"][0].send([packet()], control=False)
    bench.turn_until_told("sent", 0)
    assert bench.nic.story == [("received", 0), ("event",), ("sent", 0)]


def test_what_has_arrived_is_taken_in_before_an_overdue_timer_and_the_delay_is_counted(bench: Bench) -> None:
    far = bench.ports["b"]
    bench.nic.timer_ns = now_ns() + 1_000_000
    for port in far:
        port.send([packet()], control=False)
    end = time.monotonic_ns() + 3 * LATE_NS  # the process does not get the CPU until then
    wait_until(lambda: time.monotonic_ns() > end)
    bench.loop.turn()
    bench.turn_until_told("timer")
    order = [chapter[0] for chapter in bench.nic.story]
    assert order.index("timer") > max(place for place, what in enumerate(order) if what == "received")
    assert order.count("received") == 2
    assert bench.loop.counters.late_timers >= 1
    assert bench.loop.counters.worst_late_ns > 2 * LATE_NS


def test_moderated_turns_keep_their_distance(bench: Bench) -> None:
    distance_ns = 20_000_000
    with bench.cable.inside("a"):
        moderated = Loop(bench.nic, [], bench.witness, distance_ns)
    bench.nic.timer_ns = 0  # overdue, again and again
    begin = now_ns()
    for _ in range(5):
        moderated.turn()
        bench.nic.timer_ns = 0
    assert now_ns() - begin >= 4 * distance_ns
    assert bench.nic.story.count(("timer",)) == 5
    moderated.close()


def test_a_timer_is_not_late_on_purpose(bench: Bench) -> None:
    """A plain epoll timeout would round up to whole milliseconds, always."""
    delays = []
    for _ in range(40):
        bench.nic.timer_ns = due = now_ns() + 200_000
        bench.nic.story.clear()
        bench.turn_until_told("timer")
        delays.append(now_ns() - due)
    assert min(delays) < 700_000


@pytest.mark.parametrize("end", ["a", "b"])
def test_edges_of_the_carrier_reach_nic_and_application(bench: Bench, end: str) -> None:
    for _ in range(10):
        for state, up in (("down", False), ("up", True)):
            bench.nic.story.clear()
            bench.cable.set_link(end, 1, state)
            bench.turn_until_told("carrier", 1, up)
            assert bench.nic.story == [("port", 1, up), ("carrier", 1, up)]


@pytest.mark.parametrize("end", ["a", "b"])
def test_a_port_without_carrier_at_the_start_is_told_at_once_and_hears_when_it_is_up(end: str) -> None:
    cable = Cable()
    try:
        cable.set_link(end, 1, "down")
        bench = Bench(cable)
        assert bench.nic.story == [("port", 1, False)]
        cable.set_link(end, 1, "up")
        bench.turn_until_told("port", 1, True)
        bench.ports["b"][1].send([packet()], control=False)
        bench.turn_until_told("received", 1)
        bench.close()
    finally:
        cable.remove()


@single_and_in_batches
def test_a_queue_behind_the_socket_that_is_full_loses_nothing(bench: Bench) -> None:
    """Its limit is below what the socket takes: the kernel refuses with ENOBUFS, and never says when to go on."""
    limit = ["qdisc", "replace", "dev", "eth0", "parent", "1:10", "bfifo", "limit", "5000"]
    subprocess.run(["tc", "-n", bench.cable.namespaces["a"], *limit], check=True, capture_output=True)
    asked: list[tuple[int, Sent]] = []
    send = bench.ports["a"][0].send

    def sending(buffers: Sequence[Buffer], control: bool) -> Sent:
        result = send(buffers, control)
        asked.append((now_ns(), result))
        return result

    bench.ports["a"][0].send = sending  # type: ignore[method-assign]
    packets = numbered(40)
    bench.nic.outbox.extend(Datagram(0, False, (one,)) for one in packets)
    arrived: list[bytes] = []

    def all_there() -> bool:
        arrived.extend(received(bench.ports["b"][0], 0))
        return len(arrived) >= len(packets)

    bench.turn_until(all_there)
    assert arrived == packets
    pauses = [later - sooner for (sooner, result), (later, _) in pairwise(asked) if result is Sent.QUEUE_FULL]
    assert min(pauses) > 900_000, "it asks again and again instead of waiting a little"


@single_and_in_batches
def test_what_waits_for_a_port_that_goes_down_is_not_sent_when_it_is_back(bench: Bench) -> None:
    """The NIC has sent it over another port by then; the port counts as ready, so that it is used when it is up."""
    bench.nic.outbox.extend(Datagram(0, False, (one,)) for one in numbered(40))
    bench.loop.turn()
    assert not bench.nic.ready[0]
    kept_number = bench.nic.story.count(("sent", 0)) - 1
    bench.nic.outbox.clear()
    bench.cable.set_link("a", 0, "down")
    bench.turn_until_told("carrier", 0, False)
    assert bench.nic.ready[0]
    bench.cable.set_link("a", 0, "up")
    bench.turn_until_told("carrier", 0, True)
    last = packet(b"last")
    bench.nic.outbox.append(Datagram(0, False, (last,)))
    arrived: list[bytes] = []

    def last_there() -> bool:
        arrived.extend(received(bench.ports["b"][0], 0))
        return last in arrived

    bench.turn_until(last_there)
    assert numbered(40)[kept_number] not in arrived


def test_a_lost_send_is_noticed_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interface is down at our own end: the first refusal makes the loop look, though it just heard of the port."""
    for name in ("CARRIER_LOOK_NS", "CARRIER_BUSY_NS", "CARRIER_IDLE_NS"):
        monkeypatch.setattr(loop, name, 10**9)
    monkeypatch.setattr(loop, "_HEARD_NS", 10**9)
    bench.ports["b"][0].send([packet()], control=False)
    bench.turn_until_told("received", 0)
    bench.nic.outbox.extend(Datagram(0, False, (one,)) for one in numbered(10))
    bench.cable.set_link("a", 0, "down")
    bench.turn_until_told("port", 0, False)
    sent = bench.nic.story.index(("port", 0, False))
    assert bench.nic.story[:sent].count(("sent", 0)) == 1


def test_batches_grow_while_the_port_takes_them_and_start_again_when_it_does_not() -> None:
    cable = Cable(rate="2gbit")
    bench = Bench(cable, rate_bps=400_000_000)
    port = bench.ports["a"][0]
    sizes: list[int] = []
    send_batch = port.send_batch

    def sending() -> list[Datagram]:
        sizes.append(len(port._batch))
        return send_batch()

    port.send_batch = sending  # type: ignore[method-assign]
    try:
        bench.nic.outbox.extend(Datagram(0, False, (one[:88], one[88:])) for one in numbered(15))
        bench.turn_until(lambda: not bench.nic.outbox)
        assert sizes[:4] == [1, 2, 4, 8]
        slow = ["class", "change", "dev", "eth0", "classid", "1:10", "htb", "rate", "1mbit"]
        subprocess.run(["tc", "-n", cable.namespaces["a"], *slow], check=True, capture_output=True)
        bench.nic.outbox.extend(Datagram(0, False, (one,)) for one in numbered(15))
        bench.turn_until(lambda: not bench.nic.ready[0])
        assert 8 < max(sizes) < 12
        sizes.clear()
        bench.turn_until(lambda: bench.nic.ready[0], seconds=10)
        bench.nic.outbox.append(Datagram(0, False, (packet(),)))
        bench.turn_until(lambda: bool([size for size in sizes if size]))
        assert next(size for size in sizes if size) == 1
    finally:
        bench.close()
        cable.remove()
