"""MRC beside RoCE in virtual time: equal bandwidth per host, the same traffic, the same faults. Ratios and orderings.

MRC has two planes of 20 Mb/s a port, by static SRv6; RoCE one plane of 40 Mb/s whose switches hash. Two racks of four
hosts, four T1s a plane: every T0 has as much uplink as its hosts can send.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agents.transport import PacketLost, QpFailed
from agents.workloads.matrix import incast
from testbed.chaos.scenario import load_scenario
from testbed.chaos.virtual import simulate
from testbed.sim.lab import SimLab
from testbed.topology.labfile import load_lab
from testbed.topology.labspec import LabSpec
from testbed.topology.sizes import payload_share

MS, S = 10**6, 10**9
HOST_BPS = 40_000_000
LIMIT_BPS = HOST_BPS * payload_share()
ACROSS = [(src, (src + 4) % 8) for src in range(8)]


def a_lab(
    transport: str, *, seed: int = 1, routing: str | None = None, total_gbps: int | None = None, **options: Any
) -> SimLab:
    """`routing`: by default what the transport is meant for; `total_gbps`: of each host at real rates, not emulated."""
    planes = 2 if transport == "mrc" else 1
    real = dict.fromkeys(("host", "fabric"), f"{(total_gbps or 200) // planes} Gb/s")
    emulated = dict.fromkeys(("host", "fabric"), f"{40 // planes} Mb/s")
    fields = {
        "name": "base",
        "planes": planes,
        "t0_groups": 2,
        "hosts_per_t0": 4,
        "t1s_per_plane": 4,
        "rates": emulated if total_gbps is None else real,
        "stands_for": real,
        "routing": routing or {"mrc": "srv6", "roce": "ecmp"}[transport],
        "transport": {"kind": transport},
    }
    return SimLab(LabSpec.model_validate(fields), seed=seed, **options)


def flow_shares(lab: SimLab, pairs: Iterable[tuple[int, int]], *, qps: int = 1, for_ns: int = 400 * MS) -> list[float]:
    """Each pair's goodput at full load after a warm-up, as a share of what a host can send."""
    lab.start_flows([pair for pair in pairs for _ in range(qps)], load_bps=None)
    lab.run(400 * MS)
    return measured(lab, qps, for_ns)


def measured(lab: SimLab, qps: int, for_ns: int) -> list[float]:
    before = [sum(flow.receiving_qp.bytes_received_by_port) for flow in lab.flows]
    lab.run(for_ns)
    moved = [sum(flow.receiving_qp.bytes_received_by_port) - old for flow, old in zip(lab.flows, before, strict=True)]
    pairs = [sum(moved[at : at + qps]) for at in range(0, len(moved), qps)]
    return [8 * S * bytes_ / for_ns / LIMIT_BPS for bytes_ in pairs]


def nothing_wrong(lab: SimLab) -> None:
    for flow in lab.flows:
        assert (flow.receiver.counters.bytes_wrong, flow.receiver.counters.messages_unexpected) == (0, 0)
        assert flow.receiver.counters.bytes_delivered > 0


def test_at_full_load_hashed_flows_collide_and_sprayed_ones_do_not() -> None:
    """Figure 20 in small: with one queue pair the unluckiest flow of RoCE gets 0.6 at most, in most seeds."""
    least = []
    for seed in range(1, 6):
        lab = a_lab("roce", seed=seed)
        least.append(min(flow_shares(lab, ACROSS)))
        nothing_wrong(lab)
    assert sum(share <= 0.6 for share in least) >= 3, least
    mrc = a_lab("mrc")
    assert min(flow_shares(mrc, ACROSS)) >= 0.95
    nothing_wrong(mrc)


def test_eight_queue_pairs_spread_what_one_cannot() -> None:
    one, eight = (min(flow_shares(a_lab("roce", seed=2), ACROSS, qps=qps)) for qps in (1, 8))
    assert eight > 1.5 * one


def test_mrc_over_a_hashing_fabric_needs_many_evs() -> None:
    """Spraying alone: with an EV for each path hashing leaves paths out, with eight times as many hardly any."""
    few, many = (min(flow_shares(a_lab("mrc", routing="ecmp", evs_per_plane=evs), ACROSS)) for evs in (4, 32))
    assert many > few
    assert many >= 0.85


def test_the_more_is_lost_the_further_mrc_is_ahead() -> None:
    """Figures 16 and 17 in small: one flow at 100 Gb/s, so that nothing but the loss is in its way.

    At real rates, because what go-back-N throws away for each loss is what fits into a round trip.
    """

    def share(transport: str, loss: float) -> float:
        best = {"timeout_exponent": 3} if transport == "roce" else {"probe_interval_ns": 10_000}
        lab = a_lab(transport, total_gbps=100, **best)
        for name, link in lab.clos.links.items():
            if link.tier == "t0-t1":  # a path has two of them
                for direction in lab.network.directions(name):
                    direction.set_port(replace(direction.port, loss=loss / 2))
        lab.start_flows([(0, 4)], load_bps=None)
        lab.run(MS // 5)
        moved = measured(lab, 1, for_ns=MS)[0]
        nothing_wrong(lab)
        return moved * HOST_BPS / (100 * 10**9)

    losses = (0.0, 0.001, 0.01)
    mrc, roce = ([share(transport, loss) for loss in losses] for transport in ("mrc", "roce"))
    assert min(mrc[0], roce[0]) > 0.95
    assert roce[0] > roce[1] > roce[2]
    ahead = [a / b for a, b in zip(mrc, roce, strict=True)]
    assert ahead[0] < ahead[1] < ahead[2] and ahead[2] > 1.15, ahead


def test_a_link_dies_silently_mrc_goes_round_it_and_a_queue_pair_of_roce_dies_with_it() -> None:
    mrc = a_lab("mrc")
    before = flow_shares(mrc, ACROSS[:1])[0]
    mrc.network.silence("p0t0-0:p0t1-0")
    mrc.run(100 * MS)
    assert measured(mrc, 1, 400 * MS)[0] > 0.95 * before
    assert not [event for _, event in mrc.log if isinstance(event, QpFailed)]

    roce = a_lab("roce", timeout_exponent=3)
    flow_shares(roce, ACROSS[:1])
    [t1] = {t1 for _, t1 in roce.network.crossed}
    roce.network.silence(f"p0t0-0:p0t1-{t1}")
    roce.run(4 * S)
    [failed] = [event for host, event in roce.log if isinstance(event, QpFailed)]
    assert "retries exhausted" in failed.why
    assert len([event for _, event in roce.log if isinstance(event, PacketLost)]) == 7
    assert measured(roce, 1, 400 * MS) == [0.0]
    nothing_wrong(roce)


def test_a_link_that_is_seen_down_is_hashed_around_after_a_timeout() -> None:
    """The T0 sees it and takes other links; what was on the way is lost, and go-back-N notices at its timeout."""
    lab = a_lab("roce", timeout_exponent=3)
    flow_shares(lab, ACROSS[:1])
    towards = {path.host: t1 for path, t1 in lab.network._paths.values()}
    t1 = towards["h4"]
    assert towards["h0"] != t1, "acknowledgements come another way: that T1 would go on sending them into the dead link"
    lab.network.cut(f"p0t0-0:p0t1-{t1}")
    lab.run(S)
    assert measured(lab, 1, 400 * MS)[0] > 0.5
    assert not [event for _, event in lab.log if isinstance(event, QpFailed)]
    nothing_wrong(lab)


def test_an_incast_leaves_the_victim_alone_under_mrc() -> None:
    """Figure 18 in small: three send to h0, and a fourth to h1 in the same rack."""
    flows, victim = incast([[0, 1, 2, 3], [4, 5, 6, 7]], target=0, senders=3)
    mrc = a_lab("mrc")
    *crowd, alone = flow_shares(mrc, [*flows, victim], for_ns=800 * MS)
    assert alone >= 0.95
    assert sum(crowd) == pytest.approx(1, rel=0.05)
    nothing_wrong(mrc)
    roce = a_lab("roce")
    *crowd, _ = flow_shares(roce, [*flows, victim], for_ns=800 * MS)
    assert sum(crowd) <= 1.01
    nothing_wrong(roce)


def test_the_same_seed_is_the_same_run() -> None:
    runs = [flow_shares(a_lab("roce", seed=9), ACROSS, for_ns=100 * MS) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0] != flow_shares(a_lab("roce", seed=Random(9).randrange(100)), ACROSS, for_ns=100 * MS)


def test_a_scenario_shows_the_baselines_reroute_as_its_timeout(tmp_path: Path) -> None:
    """MRC is round a silent T1 within a few round trips; RoCE waits for its retries, and for the T1 to come back."""
    reroutes = {}
    for lab in ("tiny", "baseline"):
        scenario = load_scenario("t1-silent", (f"lab={lab}", "duration=5 s"))
        outcome = simulate(scenario, load_lab(lab), tmp_path / lab)
        judged = {row["name"]: row["value"] for row in outcome.summary["expectations"]}
        assert judged["bytes_wrong"] == 0
        assert (tmp_path / lab / "report.html").stat().st_size > 0
        reroutes[lab] = judged["rerouted_within"]
    assert 0 < 5 * reroutes["tiny"] < reroutes["baseline"], reroutes
