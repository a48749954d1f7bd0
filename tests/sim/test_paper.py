"""The MRC paper's experiments in virtual time, at its rates: 100 Gb/s a port, 4 KB packets, 1 us links, T0-T1-T0.

One flow from h0 to h1 over 8 planes x 32 T1s = 256 EVs, unless a test says otherwise.
"""

import statistics
from typing import Any

import pytest

from agents.transport import EvChanged, PacketLost, QpFailed
from agents.wire import ev
from testbed.sim.lab import SimLab
from testbed.sim.pair import REAL_RATES, US
from testbed.topology.clos import t0_name, t1_name
from testbed.topology.labspec import LabSpec, Queue
from testbed.topology.sizes import payload_share

PORT_BPS = 100 * 10**9 * payload_share()
PLANES, T1S = 8, 32
PLANE, T1 = 3, 17  # where something breaks
ROUND_NS = PLANES * T1S * 4096 * 8 * 10**9 // int(PLANES * PORT_BPS)  # until an EV's turn comes again


def fabric(
    seed: int = 1,
    planes: int = PLANES,
    t1s: int = T1S,
    hosts_per_t0: int = 1,
    queue: Queue | None = None,
    **options: Any,
) -> SimLab:
    spec = LabSpec(
        name="paper",
        planes=planes,
        t0_groups=2,
        hosts_per_t0=hosts_per_t0,
        t1s_per_plane=t1s,
        rates=REAL_RATES,
        queue=queue or Queue(),
    )
    return SimLab(spec, seed=seed, probe_interval_ns=50 * US, **options)


def one_flow(seed: int = 1, warm_ns: int = 150 * US, **options: Any) -> SimLab:
    """The flow at full speed, warmed up."""
    lab = fabric(seed, **options)
    lab.start_flows([(0, 1)], load_bps=None, slots=256)  # 8 MB: what 800 Gb/s carry in 84 us
    lab.run(warm_ns)
    return lab


def goodput(lab: SimLab, bins: int) -> list[float]:
    """Of all flows in each 20 us, as a fraction of eight ports' payload rate."""
    return [bps / (PLANES * PORT_BPS) for bps in lab.goodput_bps(bins * 20 * US, 20 * US)]


def of_kind(lab: SimLab, kind: type) -> list[Any]:
    return [event for _, event in lab.log if isinstance(event, kind)]


def path(event: Any) -> tuple[int, int]:
    return ev.plane_of(event.ev), ev.uplink_of(event.ev)


def test_one_queue_pair_fills_eight_ports() -> None:
    lab = one_flow(warm_ns=100 * US)
    assert min(goodput(lab, 5)) >= 0.96
    assert not of_kind(lab, PacketLost) and not of_kind(lab, EvChanged)


@pytest.mark.parametrize("seed", range(4))
def test_a_t1_that_dies_in_silence_is_avoided_within_30_us(seed: int) -> None:
    lab = one_flow(seed, warm_ns=150 * US + seed * 1300)
    for port, _ in lab.clos.ports(t1_name(PLANE, T1)):
        lab.ports.change(port, black_hole="all")
    during = goodput(lab, 6)
    lost = of_kind(lab, PacketLost)
    assert lost and {path(event) for event in lost} == {(PLANE, T1)}
    first_ns = min(event.sent_ns for event in lost)
    assert lab.network.last_write_ns[0, PLANE, T1] - first_ns <= 30 * US
    assert min(during) > 0.95
    assert [path(event) for event in of_kind(lab, EvChanged)] == [(PLANE, T1)], "no other path is blamed"


@pytest.mark.parametrize("silent", [False, True])
def test_a_flap_of_one_link_costs_a_packet_or_two(silent: bool) -> None:
    lab = one_flow()
    losses = []
    for t1 in range(7):
        link = f"{t0_name(PLANE, 0)}:{t1_name(PLANE, t1)}"
        lab.run(t1 * 1300)  # so that the EV's turn comes sooner or later after the fault
        lab.network.silence(link) if silent else lab.network.cut(link)
        lab.run(50 * US)
        lab.network.unsilence(link) if silent else lab.network.mend(link)
        lab.run(30 * US)
        lost = [event for event in of_kind(lab, PacketLost) if path(event) == (PLANE, t1)]
        detected_ns = min(event.now_ns - event.sent_ns for event in lost)
        assert len(lost) <= 2 + detected_ns / ROUND_NS
        losses.append(len(lost))
    assert statistics.median(losses) <= 2
    assert len(of_kind(lab, PacketLost)) == sum(losses), "nothing else was lost"


@pytest.mark.parametrize("end", [0, 1])
def test_a_nic_port_that_goes_leaves_seven_eighths_and_comes_back(end: int) -> None:
    lab = one_flow()
    nic_link = f"h{end}:{t0_name(5, end)}"
    lab.network.cut(nic_link)
    lab.run(20 * US)
    assert goodput(lab, 5) == pytest.approx([7 / 8] * 5, rel=0.01)
    lab.network.mend(nic_link)
    lab.run(20 * US)
    assert goodput(lab, 5) == pytest.approx([1] * 5, rel=0.01)
    assert not of_kind(lab, EvChanged), "a port is no path's fault"


def test_an_ev_with_20_percent_loss_is_replaced_from_its_own_plane_and_goodput_stays_flat() -> None:
    """16 EVs in use, 2 a plane, as in the paper's figures 12 and 13."""
    lab = one_flow(evs_per_plane=2)
    queue_pair: Any = lab.flows[0].sending_qp

    def in_use(plane: int) -> set[int]:
        return {info.ev for info in queue_pair.ev_map() if info.turns and info.plane == plane}

    before = [in_use(plane) for plane in range(PLANES)]
    assert [len(evs) for evs in before] == [2] * PLANES
    bad = min(before[PLANE])
    link = f"{t0_name(PLANE, 0)}:{t1_name(PLANE, ev.uplink_of(bad))}"
    lab.ports.change(lab.clos.links[link].a, match_kind="ev", match_value=bad, match_loss=0.2)
    assert min(goodput(lab, 4)) > 0.97
    after = [in_use(plane) for plane in range(PLANES)]
    assert bad not in after[PLANE] and len(after[PLANE]) == 2 and len(after[PLANE] & before[PLANE]) == 1
    assert [evs for plane, evs in enumerate(after) if plane != PLANE] == [
        evs for plane, evs in enumerate(before) if plane != PLANE
    ]
    first = min(of_kind(lab, PacketLost), key=lambda event: event.sent_ns)
    assert of_kind(lab, EvChanged)[0].now_ns == first.now_ns, "the first loss that is seen retires it"
    assert {path(event) for event in of_kind(lab, PacketLost)} == {(PLANE, ev.uplink_of(bad))}


def contended(ecn: bool) -> tuple[list[float], float]:
    """h0 to h2 over 8 paths of one plane and h1 to h3 over the first of them alone (figure 14).

    Returns the goodput of both, of a port's payload rate, and how much the first flow uses that path (1: its share).
    """
    lab = fabric(planes=1, t1s=8, hosts_per_t0=2, queue=Queue(ecn=ecn))
    lab.start_flows([(0, 2), (1, 3)], load_bps=None)
    first, second = (flow.sending_qp for flow in lab.flows)
    for info in second.ev_map():  # type: ignore[attr-defined]
        if info.uplink != 0:
            second.deny(info.ev, lab.events.now)  # type: ignore[attr-defined]
    lab.run(200 * US)
    sent = [queue_pair.counters.packets_sent for queue_pair in (first, second)]
    received = [sum(flow.receiving_qp.bytes_received_by_port) for flow in lab.flows]
    crossed = lab.network.crossed.copy()
    lab.run(300 * US)
    by_first, by_second = (
        queue_pair.counters.packets_sent - before for queue_pair, before in zip((first, second), sent, strict=True)
    )
    on_contended = (lab.network.crossed - crossed)[0, 0] - by_second
    shares = [
        (sum(flow.receiving_qp.bytes_received_by_port) - before) * 8e9 / (300 * US) / PORT_BPS
        for flow, before in zip(lab.flows, received, strict=True)
    ]
    return shares, 8 * on_contended / by_first


def test_a_flow_moves_away_from_a_contended_path_by_its_marks() -> None:
    (first, second), use = contended(ecn=True)
    assert first > 0.98 and second > 0.9, "both near line rate"
    (_, second_without), use_without = contended(ecn=False)
    assert use < 0.7 < 0.9 < use_without, "marks did it"
    assert second > second_without + 0.03


def test_where_every_path_loses_one_packet_of_a_hundred_goodput_stays() -> None:
    """No path is better than another then: retired EVs come back as fast as they go."""
    lab = fabric(planes=2, t1s=8)
    lab.start_flows([(0, 1)], load_bps=None, slots=256)
    lab.run(100 * US)
    for link in lab.clos.links.values():
        if not link.name.startswith("h"):
            lab.ports.change(link.a, loss=0.01)
    shares = [bps / (2 * PORT_BPS) for bps in lab.goodput_bps(1500 * US, 100 * US)]
    assert len(of_kind(lab, PacketLost)) > 50
    assert sum(shares) / len(shares) > 0.95
    assert min(shares) > 0.75  # many paths may be out at once: in the worst 100 us other seeds have 0.82 to 0.99
    assert not of_kind(lab, QpFailed)


def test_a_7_to_1_incast_loses_nothing_and_leaves_its_neighbour_alone() -> None:
    """h0..h6 to h8, and h7 to h9 in the same rack: what does not fit at h8 is trimmed there, not dropped."""
    lab = fabric(planes=2, t1s=8, hosts_per_t0=8)
    lab.start_flows([(7, 9)], load_bps=None)
    lab.run(200 * US)
    lab.start_flows([(src, 8) for src in range(7)], load_bps=None)
    lab.run(200 * US)
    before = [sum(flow.receiving_qp.bytes_received_by_port) for flow in lab.flows]
    lab.run(300 * US)
    shares = [
        (sum(flow.receiving_qp.bytes_received_by_port) - bytes_then) * 8e9 / (300 * US) / (2 * PORT_BPS)
        for flow, bytes_then in zip(lab.flows, before, strict=True)
    ]
    assert shares[0] > 0.98, "the victim"
    assert sum(shares[1:]) > 0.95, "the receiver's ports stay full"
    assert min(shares[1:]) > 0
    assert lab.network.fates()["trimmed"] > 0
    assert not of_kind(lab, QpFailed)
    assert not [event for event in of_kind(lab, PacketLost) if event.cause != "trimmed"], "no timeouts"


@pytest.mark.full
def test_a_7_to_1_incast_over_eight_planes_is_fair_once_it_has_settled() -> None:
    lab = fabric(t1s=8, hosts_per_t0=8)
    lab.start_flows([(7, 9)], load_bps=None, slots=256)
    lab.run(100 * US)
    lab.start_flows([(src, 8) for src in range(7)], load_bps=None, slots=256)
    lab.run(800 * US)
    before = [sum(flow.receiving_qp.bytes_received_by_port) for flow in lab.flows]
    lab.run(400 * US)
    moved = [sum(flow.receiving_qp.bytes_received_by_port) - then for flow, then in zip(lab.flows, before, strict=True)]
    assert moved[0] * 8e9 / (400 * US) > 0.98 * PLANES * PORT_BPS, "the victim"
    senders = moved[1:]
    assert sum(senders) ** 2 / (len(senders) * sum(value**2 for value in senders)) >= 0.99, senders  # Jain's index
    assert not of_kind(lab, PacketLost) and not of_kind(lab, QpFailed)
