"""The queue of a port: what it marks, trims and drops at which depth, and what overtakes it.

The ports under test are so slow that what waits stays while the test looks; then they are sped up, and all comes out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from agents.wire import dscp
from agents.wire.headers import Opcode
from testbed.fabric.portmap import Reader, ev_uses
from tests.kernel.port_bench import (
    PortBench,
    receive_until_quiet,
    send_all,
    wait_for,
    within_binomial,
)

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]

UPLINK = "p0t0-0", "p0t1-0"
LAST_HOP = "p0t0-0", "h1"
MIN_PACKETS_PER_BIN = 50


@pytest.fixture
def two_racks() -> Iterator[PortBench]:
    """h0, h1 and h2, h3; the T0s' uplinks are slow, all else is fast."""
    with PortBench(hosts=2, t0_groups=2) as bench:
        for node in bench.clos.nodes:
            for port, _ in bench.clos.ports(node):
                if (node, port.name) != UPLINK:
                    bench.speed_up(node, port.name)
        yield bench


@pytest.fixture
def one_rack() -> Iterator[PortBench]:
    """h0, h1, h2 at one T0; its port to h1 is slow."""
    with PortBench(hosts=3) as bench:
        for host in range(3):
            bench.speed_up(f"h{host}", "eth0")
        yield bench


def put(bench: PortBench, where: tuple[str, str], sender: object, packet: bytes) -> None:
    """Send one packet, and wait until the port has had it."""
    before = bench.counters(*where)
    sender.send(packet)  # type: ignore[attr-defined]
    wait_for(lambda: (now := bench.counters(*where)).packets + now.dropped > before.packets + before.dropped)


@pytest.mark.parametrize(
    ("settings", "depth"),
    [
        ({"kmin_bytes": 0, "kmax_bytes": 0, "trimming": False}, "marked_depth_bytes"),
        ({"trim_at_bytes": 10_000}, "trimmed_depth_bytes"),
        ({"limit_bytes": 10_000, "trimming": False}, "dropped_depth_bytes"),
    ],
    ids=["marked", "trimmed", "dropped"],
)
def test_the_depth_that_decides_is_what_htb_says(two_racks: PortBench, settings: dict[str, int], depth: str) -> None:
    bench, sender = two_racks, two_racks.sender(0)
    send_all(sender, (bench.data(0, 2, psn) for psn in range(20)))
    wait_for(lambda: bench.counters(*UPLINK).packets == 20)
    bench.change(*UPLINK, **settings)
    equal = []
    for psn in range(20, 26):  # one may leave while we look, every 0.3 s
        waiting = bench.backlog_bytes(*UPLINK)
        put(bench, UPLINK, sender, bench.data(0, 2, psn))
        assert waiting > 10 * 4096
        equal.append(abs(getattr(bench.counters(*UPLINK), depth) - waiting) <= bench.depth_error_bytes)
    assert sum(equal) >= len(equal) / 2


def test_marks_follow_kmin_kmax_and_pmax(two_racks: PortBench) -> None:
    """1 200 packets of about 500 bytes, each at the depth that those before it make."""
    bench, sender, receiver = two_racks, two_racks.sender(0), two_racks.receiver(2)
    kmin, kmax, pmax = 100_000, 500_000, 0.4
    bench.change(*UPLINK, kmin_bytes=kmin, kmax_bytes=kmax, pmax=pmax, trimming=False)
    depths = []
    for psn in range(1200):
        put(bench, UPLINK, sender, bench.data(0, 2, psn, payload=bytes(400)))
        depths.append(bench.counters(*UPLINK).depth_bytes)
    bench.drain(*UPLINK)
    marked = {packet.psn for packet in receive_until_quiet(receiver) if packet.ecn == dscp.CE}
    assert len(marked) == bench.counters(*UPLINK).marked
    assert max(depths) > kmax + 50_000

    below = [psn for psn, depth in enumerate(depths) if depth <= kmin]
    above = [psn for psn, depth in enumerate(depths) if depth >= kmax]
    assert not marked & set(below)
    assert marked >= set(above)
    quarter = (kmax - kmin) // 4
    for low in range(kmin, kmax, quarter):
        inside = [psn for psn, depth in enumerate(depths) if low < depth <= low + quarter and depth < kmax]
        assert len(inside) > MIN_PACKETS_PER_BIN
        mean = sum(pmax * (depths[psn] - kmin) / (kmax - kmin) for psn in inside) / len(inside)
        assert within_binomial(len(marked & set(inside)), len(inside), mean), (low, mean)


def test_the_last_hop_marks_nothing_and_control_is_never_marked(one_rack: PortBench) -> None:
    bench, sender, receiver = one_rack, one_rack.sender(0), one_rack.receiver(1)
    send_all(sender, [*(bench.data(0, 1, psn) for psn in range(50)), bench.sack(0, 1, 50)])
    bench.drain(*LAST_HOP)
    packets = receive_until_quiet(receiver)
    assert sorted(packet.psn for packet in packets) == list(range(51))
    assert {packet.ecn for packet in packets if packet.opcode != Opcode.SACK} == {dscp.ECT0}
    assert {packet.ecn for packet in packets if packet.opcode == Opcode.SACK} == {dscp.NOT_ECT}


def test_ecn_towards_hosts_only_where_the_lab_file_says_so() -> None:
    for last_hop in (False, True):
        with PortBench(hosts=2, queue={"ecn_last_hop": last_hop, "kmin": "0 B", "kmax": "0 B"}) as bench:
            bench.speed_up("h0", "eth0")
            send_all(bench.sender(0), (bench.data(0, 1, psn) for psn in range(10)))
            wait_for(lambda bench=bench: bench.counters(*LAST_HOP).packets == 10)
            assert bench.counters(*LAST_HOP).marked == (10 if last_hop else 0)


@pytest.mark.parametrize("where", [UPLINK, LAST_HOP], ids=["core", "last hop"])
@pytest.mark.parametrize("immediate", [None, 77], ids=["plain", "immediate"])
@pytest.mark.parametrize("timestamp", [None, 9], ids=["no time", "time"])
def test_a_trimmed_packet_keeps_all_headers(
    where: tuple[str, str], immediate: int | None, timestamp: int | None
) -> None:
    """It is parsed by the agents' own code, which checks all three lengths; it has no ICRC, and needs none."""
    with PortBench(hosts=2, t0_groups=2) as bench:
        for node in ("h0", "h2"):
            bench.speed_up(node, "eth0")
        src, dst = (0, 2) if where == UPLINK else (0, 1)
        receiver = bench.receiver(dst)
        bench.change(*where, trim_at_bytes=0)
        opcode = Opcode.WRITE_MIDDLE if immediate is None else Opcode.WRITE_LAST_IMM
        given = {"opcode": opcode, "immediate": immediate, "tx_timestamp": timestamp, "payload": b"x" * 1003}
        whole = bench.data(src, dst, 5, spare=3, **given)
        bench.sender(0).send(whole)
        [packet] = receive_until_quiet(receiver)
        assert packet.dscp == (dscp.TRIMMED if where == UPLINK else dscp.TRIMMED_LASTHOP)
        assert packet.trimmed
        assert packet.ev == bench.path(src, dst, 3).ev
        assert (packet.psn, packet.opcode) == (5, opcode)
        assert (packet.body.immediate, packet.body.tx_timestamp) == (immediate, timestamp)  # type: ignore[union-attr]
        assert (packet.body.address, packet.body.length) == (5 << 12, 1 << 20)  # type: ignore[union-attr]
        assert len(packet.body.payload) == 0  # type: ignore[union-attr]
        headers_bytes = len(whole) - 1003 - 1 - 4  # payload, pad to a multiple of four, ICRC
        assert bench.counters(*where).bytes == headers_bytes


@pytest.mark.parametrize("class_", [dscp.NO_TRIM, dscp.CONTROL])
def test_what_must_not_be_trimmed_waits_or_is_dropped_whole(one_rack: PortBench, class_: int) -> None:
    bench, receiver = one_rack, one_rack.receiver(1)
    bench.change(*LAST_HOP, trim_at_bytes=0, limit_bytes=20_000, control_extra_bytes=0)
    send_all(bench.sender(0), (bench.data(0, 1, psn, dscp=class_) for psn in range(20)))
    wait_for(lambda: (now := bench.counters(*LAST_HOP)).packets + now.dropped == 20)
    counted = bench.counters(*LAST_HOP)
    assert counted.trimmed == 0
    assert counted.dropped == (counted.dropped_control if class_ == dscp.CONTROL else counted.dropped_queue) > 10
    bench.drain(*LAST_HOP)
    assert not any(packet.trimmed for packet in receive_until_quiet(receiver))


@pytest.mark.parametrize("routing", ["srv6", "ecmp"])
def test_five_to_one_every_packet_arrives_whole_or_trimmed_and_headers_overtake(routing: str) -> None:
    with PortBench(hosts=6, rates={"host": "4 Mb/s", "fabric": "4 Mb/s"}, routing=routing) as bench:
        receiver = bench.receiver(5)
        for host in range(5):
            bench.change(f"h{host}", "eth0", limit_bytes=1 << 23)
            send_all(bench.sender(host), (bench.data(host, 5, psn, spare=host) for psn in range(100)))
        packets = receive_until_quiet(receiver, 0.5)
        counted = bench.counters("p0t0-0", "h5")
    spares = [packet.ev & 0x3FFF for packet in packets]
    assert sorted(zip(spares, (packet.psn for packet in packets), strict=True)) == [
        (host, psn) for host in range(5) for psn in range(100)
    ]
    cut = [packet for packet in packets if packet.trimmed]
    assert {packet.dscp for packet in cut} == {dscp.TRIMMED_LASTHOP}
    assert len(cut) == counted.trimmed > 50
    assert counted.dropped == 0
    # when the first header comes, most of what was sent before it still waits
    first = next(place for place, packet in enumerate(packets) if packet.trimmed)
    earlier = sum(not packet.trimmed and packet.psn < packets[first].psn for packet in packets[first:])
    assert earlier > 30


def test_packets_without_an_outer_header_are_marked_and_their_evs_noted_as_others() -> None:
    with PortBench(hosts=2, routing="ecmp") as bench:
        for host in range(2):
            bench.speed_up(f"h{host}", "eth0")
        receiver = bench.receiver(1)
        bench.change(*LAST_HOP, ecn=True, kmin_bytes=0, kmax_bytes=0, watch_evs=True)
        send_all(bench.sender(0), (bench.data(0, 1, psn, spare=psn) for psn in range(5)))
        bench.drain(*LAST_HOP)
        packets = receive_until_quiet(receiver)
        uses = list(ev_uses(bench.evs_map_id))
    assert [packet.ecn for packet in packets] == [dscp.CE] * 5
    assert {(use.ev, use.src, use.dst) for use in uses} == {(packet.ev, 0, 1) for packet in packets}


def test_when_even_headers_find_no_room_they_are_dropped_and_counted(one_rack: PortBench) -> None:
    bench, receiver = one_rack, one_rack.receiver(1)
    bench.change(*LAST_HOP, trim_at_bytes=20_000, limit_bytes=20_000, control_extra_bytes=2_000)
    send_all(bench.sender(0), (bench.data(0, 1, psn) for psn in range(300)))
    wait_for(lambda: (now := bench.counters(*LAST_HOP)).packets + now.dropped == 300)
    counted = bench.counters(*LAST_HOP)
    assert counted.dropped == counted.dropped_control > 50
    assert bench.backlog_bytes(*LAST_HOP) <= 22_000
    bench.drain(*LAST_HOP)
    assert len(receive_until_quiet(receiver)) == counted.packets == 300 - counted.dropped


def test_a_sack_waits_for_less_than_two_data_packets() -> None:
    """At 2 Mb/s a data packet takes 17 ms, and 60 of them wait."""
    with PortBench(hosts=3, rates={"host": "2 Mb/s", "fabric": "2 Mb/s"}) as bench:
        bench.speed_up("h0", "eth0")
        receiver, quick = bench.receiver(1), bench.sender(2)
        data = bench.data(0, 1, 0)
        packet_ns = 8 * len(data) * 1_000_000_000 // 2_000_000
        send_all(bench.sender(0), [data] * 60)
        wait_for(lambda: bench.backlog_bytes(*LAST_HOP) > 40 * 4096)
        receiver.settimeout(5)
        waits = []
        for psn in range(1000, 1010):
            start_ns = time.monotonic_ns()
            quick.send(bench.sack(2, 1, psn))
            while bench.psn_of(receiver.recv(1 << 14)) != psn:
                pass
            waits.append(time.monotonic_ns() - start_ns)
        assert bench.backlog_bytes(*LAST_HOP) > 20 * 4096
    assert sorted(waits)[len(waits) // 2] < 2 * packet_ns


def test_the_longest_queue_is_told_once_to_each_reader(one_rack: PortBench) -> None:
    bench = one_rack
    port = bench.port(*LAST_HOP)
    send_all(bench.sender(0), (bench.data(0, 1, psn) for psn in range(10)))
    wait_for(lambda: bench.counters(*LAST_HOP).packets == 10)
    longest = bench.backlog_bytes(*LAST_HOP)
    told = bench.port_map.queue_max(port.ifindex, Reader.SAMPLES)
    assert abs(told - longest) <= bench.depth_error_bytes
    assert bench.port_map.queue_max(port.ifindex, Reader.SAMPLES) == 0
    assert bench.port_map.queue_max(port.ifindex, Reader.STATUS) == told
