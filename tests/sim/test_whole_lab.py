"""What the kernel lab has to show, in virtual time: eight hosts at 20 Mb/s a port, links that go away under load.

Two planes, two racks of four hosts, four T1s: each T0 has as much uplink as its hosts can send. write_bw from every
host to the one at its place in the other rack.
"""

import math
import random
from typing import Any

import pytest

from agents.transport import EvChanged, PacketLost, QpFailed
from testbed.sim.lab import SimLab
from testbed.topology import capacity
from testbed.topology.clos import host_name
from testbed.topology.labspec import LabSpec, Queue
from testbed.topology.sizes import payload_share

MS, S = 10**6, 10**9
BIN_NS = 200 * MS
PAIRS = [(src, (src + 4) % 8) for src in range(8)]
T0_T1, NIC_T0 = "p0t0-0:p0t1-1", "h2:p1t0-0"


def busy_lab(
    load: float | None, pairs: list[tuple[int, int]] = PAIRS, queue: Queue | None = None, **options: Any
) -> SimLab:
    """The lab with its flows, warmed up: `load` is a fraction of the line rate, None for as fast as possible."""
    spec = LabSpec(name="sim", planes=2, t0_groups=2, hosts_per_t0=4, t1s_per_plane=4, queue=queue or Queue())
    lab = SimLab(spec, seed=1, **options)
    line_bps = spec.planes * spec.rates.host * payload_share()
    lab.start_flows(pairs, load_bps=None if load is None else int(load * line_bps))
    lab.run(600 * MS)
    return lab


def check(lab: SimLab) -> None:
    """Everything posted arrives, right and in order, and no queue pair has failed."""
    assert lab.drain(within_ns=2 * S)
    assert not [event for _, event in lab.log if isinstance(event, QpFailed)]
    for flow in lab.flows:
        sent, received = flow.sender.counters, flow.receiver.counters
        assert received.bytes_delivered == sent.bytes_posted > 0
        assert (received.bytes_wrong, received.messages_unexpected, sent.messages_given_up) == (0, 0, 0)


def oracle_bps(lab: SimLab, *dead: str) -> float:
    """What the model says of full load with these links dead, in payload."""
    offered = {(host_name(src), host_name(dst)): math.inf for src, dst in PAIRS}
    return capacity.carried(lab.clos, offered, dict.fromkeys(dead, 0.0)).total_payload_bps


@pytest.mark.parametrize("silent", [True, False])
def test_a_t0_t1_link_flaps_at_70_percent_and_no_bin_shows_it(silent: bool) -> None:
    lab = busy_lab(load=0.7)
    before = min(lab.goodput_bps(400 * MS, BIN_NS))
    lab.network.silence(T0_T1) if silent else lab.network.cut(T0_T1)
    during = lab.goodput_bps(600 * MS, BIN_NS)
    lab.network.unsilence(T0_T1) if silent else lab.network.mend(T0_T1)
    after = lab.goodput_bps(400 * MS, BIN_NS)
    assert min(during + after) >= 0.95 * before
    lost = [event for _, event in lab.log if isinstance(event, PacketLost)]
    assert 0 < len(lost) <= 10 * len(PAIRS), "what was in flight over that link"
    check(lab)


def test_without_retiring_evs_the_losses_go_on() -> None:
    """The negative control of the test above."""
    lab = busy_lab(load=0.7, retire_evs=False)
    lab.network.silence(T0_T1)
    lab.run(600 * MS)
    lost = [event for _, event in lab.log if isinstance(event, PacketLost)]
    assert len(lost) > 20 * len(PAIRS)


def test_full_load_is_within_5_percent_of_what_an_even_spray_can_carry() -> None:
    lab = busy_lab(load=None, queue=Queue(ecn=False, trimming=False))
    assert min(lab.goodput_bps(600 * MS, BIN_NS)) == pytest.approx(oracle_bps(lab), rel=0.05)
    lab.network.silence(T0_T1)
    lab.run(800 * MS)  # the queues of before drain first
    assert min(lab.goodput_bps(600 * MS, BIN_NS)) == pytest.approx(oracle_bps(lab, T0_T1), rel=0.05)
    check(lab)


def test_with_marks_senders_put_more_on_the_plane_that_is_whole() -> None:
    """Three quarters of a plane's uplinks: an even spray is as slow as that plane, the fabric can carry more."""
    lab = busy_lab(load=None)
    lab.network.silence(T0_T1)
    lab.run(800 * MS)
    line_bps = lab.spec.rates.host * payload_share()
    most_bps = (8 + 2 * 3) * line_bps  # the whole plane, and three of four uplinks of either rack in the other
    goodput_bps = min(lab.goodput_bps(600 * MS, BIN_NS))
    assert 1.05 * oracle_bps(lab, T0_T1) < goodput_bps < most_bps
    check(lab)


def test_a_nic_link_that_goes_takes_its_share_of_that_host_within_20_ms_ten_times_in_5_seconds() -> None:
    lab = busy_lab(load=None, pairs=[(2, 6), (6, 2)])
    flow = lab.flows[0]
    counted = flow.receiving_qp.bytes_received_by_port
    for _ in range(10):
        lab.network.cut(NIC_T0)
        lab.run(20 * MS)
        before = list(counted)
        lab.run(180 * MS)
        moved = [now - then for now, then in zip(counted, before, strict=True)]
        assert moved[1] == 0
        assert moved[0] * 8 / 0.18 > 0.9 * lab.spec.rates.host * payload_share(), "the other plane stays full"
        lab.network.mend(NIC_T0)
        lab.run(300 * MS)
        before = list(counted)
        lab.run(100 * MS)
        assert min(now - then for now, then in zip(counted, before, strict=True)) > 0, "both planes again"
    assert not [event for _, event in lab.log if isinstance(event, EvChanged)], "no path is blamed for a port"
    check(lab)


def test_agents_that_stall_condemn_no_path() -> None:
    """Agents share two cores with everything else: now and then one is late by a round trip."""
    lab = busy_lab(load=0.7)
    rng = random.Random(1)

    def stall() -> None:
        rng.choice(lab.hosts).stall(for_ns=rng.randrange(10 * MS))
        lab.events.after(rng.randrange(10 * MS), stall)

    stall()
    lab.run(2 * S)
    assert not [event for _, event in lab.log if isinstance(event, EvChanged | PacketLost)]
    check(lab)
