"""What can go wrong with a port: random loss, loss of one EV or one uSID, black holes; each counted, with its times."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from agents.wire import address
from agents.wire.packet import WireError, parse
from testbed.fabric import counters, observe
from testbed.fabric.portmap import ev_losses, ev_uses
from tests.kernel.port_bench import (
    ETHERNET_BYTES,
    PAYLOAD,
    PortBench,
    receive_until_quiet,
    send_all,
    wait_for,
    within_binomial,
)

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]

UPLINK = "p0t0-0", "p0t1-0"
SMALL = bytes(64)


@pytest.fixture
def fast() -> Iterator[PortBench]:
    """h0, h1 at one T0, h2, h3 at the other; no port holds anything back."""
    with PortBench(hosts=2, t0_groups=2) as bench:
        for node in bench.clos.nodes:
            for port, _ in bench.clos.ports(node):
                bench.speed_up(node, port.name)
        yield bench


@pytest.mark.parametrize(("loss", "packets"), [(0.001, 20_000), (0.01, 10_000), (0.2, 3_000)])
def test_random_loss_is_what_was_asked_for(fast: PortBench, loss: float, packets: int) -> None:
    receiver = fast.receiver(2)
    fast.change(*UPLINK, loss=loss)
    send_all(fast.sender(0), (fast.data(0, 2, psn, payload=SMALL) for psn in range(packets)))
    arrived = len(receive_until_quiet(receiver, 0.5))
    assert within_binomial(packets - arrived, packets, loss)
    assert fast.counters(*UPLINK).dropped_loss == fast.counters(*UPLINK).dropped == packets - arrived


@pytest.mark.parametrize("loss", [0.01, 0.2, 1.0])
def test_loss_of_one_ev_leaves_the_others_whole(fast: PortBench, loss: float) -> None:
    each, victim = 3_000, 1
    receiver = fast.receiver(2)
    fast.change(*UPLINK, match_kind="ev", match_value=fast.path(0, 2, victim).ev, match_loss=loss)
    frames = {spare: fast.data(0, 2, 7, spare=spare, payload=SMALL) for spare in range(3)}
    send_all(fast.sender(0), (frames[number % 3] for number in range(3 * each)))
    arrived = Counter(packet.ev for packet in receive_until_quiet(receiver, 0.5))
    assert [arrived[fast.path(0, 2, spare).ev] for spare in (0, 2)] == [each, each]
    assert within_binomial(each - arrived[fast.path(0, 2, victim).ev], each, loss)


def test_loss_for_one_usid_hits_only_who_is_behind_it(fast: PortBench) -> None:
    """Of the two hosts in the other rack the one with downlink 1."""
    to_2, to_3 = fast.receiver(2), fast.receiver(3)
    downlink = address.usid(0, address.Kind.DOWNLINK, 1)
    fast.change(*UPLINK, match_kind="usid", match_value=downlink, match_loss=1.0)
    frames = [fast.data(0, dst, 1, payload=SMALL) for dst in (2, 3)]
    send_all(fast.sender(0), frames * 500)
    assert len(receive_until_quiet(to_2)) == 500
    assert receive_until_quiet(to_3) == []
    assert fast.counters(*UPLINK).dropped_loss == 500


def test_a_black_hole_is_silent(fast: PortBench) -> None:
    """Routes, carrier and queues are as before, senders see no error, and the far end's counters stand still."""
    link = fast.clos.links[":".join(UPLINK)]
    nodes = [link.a.node, link.b.node]
    receiver = fast.receiver(2)
    before = observe.snapshot(fast.kernel, nodes)
    fast.change(*UPLINK, black_hole="all")
    assert observe.snapshot(fast.kernel, nodes) == before
    far = counters.port_stats(fast.kernel, [link.b.node])[link.b.node, link.b.name].rx_packets
    packets = [*(fast.data(0, 2, psn) for psn in range(200)), *(fast.sack(0, 2, psn) for psn in range(200))]
    sender = fast.sender(0)
    for packet in packets:
        sender.send(packet)
    wait_for(lambda: fast.counters(*UPLINK).dropped_black_hole == 400)
    assert receive_until_quiet(receiver, 0.1) == []
    assert counters.carrier(fast.kernel, link.a) and counters.carrier(fast.kernel, link.b)
    assert counters.port_stats(fast.kernel, [link.b.node])[link.b.node, link.b.name].rx_packets == far
    # the other direction is not hit
    send_all(fast.sender(2), [fast.sack(2, 0, 1)])
    assert len(receive_until_quiet(fast.receiver(0), 0.1)) <= 1
    assert fast.counters("p0t1-0", "p0t0-0").packets == 1

    fast.change(*UPLINK, black_hole="none")
    send_all(sender, packets)
    assert len(receive_until_quiet(receiver)) == 400


def test_a_black_hole_for_data_lets_control_pass(fast: PortBench) -> None:
    receiver = fast.receiver(2)
    fast.change(*UPLINK, black_hole="data")
    send_all(fast.sender(0), [fast.data(0, 2, 1), fast.sack(0, 2, 2), fast.data(0, 2, 3), fast.sack(0, 2, 4)])
    assert [packet.psn for packet in receive_until_quiet(receiver)] == [2, 4]
    assert fast.counters(*UPLINK).dropped_black_hole == 2


def test_a_host_whose_own_port_is_a_black_hole_is_not_told(fast: PortBench) -> None:
    """An error would be back-pressure: the agent would keep the packet, and lose nothing."""
    fast.change("h0", "eth0", black_hole="all")
    sender = fast.sender(0)
    for psn in range(10):
        sender.send(fast.data(0, 2, psn))  # raises OSError if it is told
    assert fast.counters("h0", "eth0").dropped_black_hole == 10


def test_the_times_of_drops_and_of_the_last_packet_are_the_clocks(fast: PortBench) -> None:
    sender, port = fast.sender(0), fast.port(*UPLINK)
    assert fast.counters(*UPLINK).first_drop_ns == 0

    def send_one(**settings: object) -> tuple[int, int]:
        fast.change(*UPLINK, **settings)
        before = fast.counters(*UPLINK)
        start_ns = time.monotonic_ns()
        sender.send(fast.data(0, 2, 0))
        wait_for(lambda: (now := fast.counters(*UPLINK)).packets + now.dropped > before.packets + before.dropped)
        return start_ns, time.monotonic_ns()

    since_ns, until_ns = send_one(black_hole="none")
    assert since_ns < fast.counters(*UPLINK).last_tx_ns < until_ns
    first = send_one(black_hole="all")
    last = send_one()
    counted = fast.counters(*UPLINK)
    assert counted.last_tx_ns < until_ns
    assert first[0] < counted.first_drop_ns < first[1] <= last[0] < counted.last_drop_ns < last[1]
    fast.port_map.forget_first_drop(port.ifindex)
    again = send_one()
    assert again[0] < fast.counters(*UPLINK).first_drop_ns < again[1]


def test_a_port_that_watches_evs_knows_when_each_was_used_last(fast: PortBench) -> None:
    """Also one that nothing gets through any more: what counts is that the sender still used it."""
    fast.change(*UPLINK, watch_evs=True, black_hole="all")
    sender = fast.sender(0)
    for spare in (0, 1, 0):
        since_ns = time.monotonic_ns()
        sender.send(fast.data(0, 2, 0, spare=spare, payload=SMALL))
        wait_for(lambda: fast.counters(*UPLINK).dropped_black_hole > 0)
    sender.send(fast.data(0, 3, 0, spare=5, payload=SMALL))
    wait_for(lambda: fast.counters(*UPLINK).dropped_black_hole == 4)
    found = {(use.ev & 0x3FFF, use.src, use.dst): use for use in ev_uses(fast.evs_map_id)}
    assert {key: use.packets for key, use in found.items()} == {(0, 0, 2): 2, (1, 0, 2): 1, (5, 0, 3): 1}
    assert {use.ifindex for use in found.values()} == {fast.port(*UPLINK).ifindex}
    assert found[1, 0, 2].last_ns < since_ns < found[0, 0, 2].last_ns < found[5, 0, 3].last_ns


@pytest.mark.parametrize("unseen", [False, True])
def test_bits_flip_so_that_the_icrc_tells_or_does_not(fast: PortBench, unseen: bool) -> None:
    receiver = fast.receiver(2)
    fast.change(*UPLINK, corrupt=1.0, corrupt_unseen=unseen)
    fast.sender(0).send(fast.data(0, 2, 5))
    frame = receiver.recv(1 << 14)[ETHERNET_BYTES:]
    assert fast.counters(*UPLINK).corrupted == 1
    if unseen:
        packet = parse(frame)
        assert packet.psn == 5
        flipped = [at for at, byte in enumerate(packet.body.payload) if byte != PAYLOAD[at]]
        assert len(flipped) == 5
    else:
        with pytest.raises(WireError, match="icrc"):
            parse(frame)


def test_what_faults_take_is_counted_as_data_or_not_and_probes_are_no_use_of_a_path(fast: PortBench) -> None:
    port = fast.port(*UPLINK)
    fast.change(*UPLINK, black_hole="all")
    sender = fast.sender(0)
    for packet in (fast.data(0, 2, 1), fast.sack(0, 2, 2), fast.data(0, 2, 3), fast.probe(0, 2)):
        sender.send(packet)
    wait_for(lambda: fast.counters(*UPLINK).dropped_black_hole == 4)
    counters = fast.counters(*UPLINK)
    assert counters.lost_data == 2
    assert counters.first_drop_ns == counters.first_lost_data_ns < counters.last_lost_data_ns
    assert counters.last_lost_data_ns == counters.last_use_ns < counters.last_drop_ns
    [loss] = ev_losses(fast.evs_map_id)
    assert (loss.src, loss.dst, loss.first_ns, loss.last_ns) == (0, 2, counters.first_drop_ns, counters.last_use_ns)
    fast.port_map.forget_first_drop(port.ifindex)
    assert fast.counters(*UPLINK).lost_data == 0
    sender.send(fast.data(0, 2, 4))
    wait_for(lambda: fast.counters(*UPLINK).dropped_black_hole == 5)
    [again] = ev_losses(fast.evs_map_id)
    assert again.first_ns == again.last_ns == fast.counters(*UPLINK).first_drop_ns > loss.last_ns
