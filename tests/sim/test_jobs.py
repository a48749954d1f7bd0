"""Jobs of ranks in virtual time, over either transport: results checked on every rank, flaps, deaths and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from agents.workloads.programs import KINDS, Job
from testbed.chaos.job import JobPlan, JobRun
from testbed.measure.bandwidth import percentile
from testbed.measure.jobs import JobResult
from testbed.sim.lab import SimLab
from testbed.topology.errors import InputError
from testbed.topology.labspec import LabSpec

MS, S = 10**6, 10**9
POLL_NS = 5 * MS
T0_T1 = "p0t0-0:p0t1-1"


def a_lab(planes: int = 2, **shape: Any) -> SimLab:
    return SimLab(LabSpec(name="jobs", planes=planes, t0_groups=2, hosts_per_t0=4, t1s_per_plane=4, **shape), seed=1)


def a_plan(lab: SimLab, kind: str, ranks: int = 8, *, operations: int = 3, **fields: Any) -> JobPlan:
    size = fields.pop("message_bytes", 64 << 10)
    job = Job(
        kind=kind,
        ranks=ranks,
        message_bytes=size,
        operations=operations,
        seed=7,
        compute_ns=fields.pop("compute_ns", 0),
    )
    return JobPlan(job=job, hosts=[f"h{rank}" for rank in range(ranks)], **fields)


def finish(lab: SimLab, run: JobRun, within_ns: int = 60 * S) -> JobResult:
    """Let time pass until the job is over."""
    deadline = lab.events.now + within_ns
    while not run.poll(lab.events.now):
        assert lab.events.now < deadline, run.result()
        lab.run(POLL_NS)
    return run.result()


def right(report: JobResult, operations: int) -> None:
    assert report.operations == operations and not report.failed
    assert (report.bytes_wrong, report.messages_unexpected) == (0, 0)
    assert report.bytes_delivered > 0


@pytest.mark.parametrize("transport", ["mrc", "roce"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_over_every_transport(kind: str, transport: str) -> None:
    lab = a_lab()
    ranks = KINDS[kind].most_ranks if KINDS[kind].most_ranks < 8 else 8
    run = JobRun(lab.agents, lab.clos, a_plan(lab, kind, ranks, transport=transport))
    run.start()
    report = finish(lab, run)
    right(report, 3)
    assert report.speed is not None and report.speed.algorithm_bps > 0
    assert report.speed.bus_bps == pytest.approx(report.speed.algorithm_bps * KINDS[kind].bus_factor(ranks))
    assert min(report.durations_ns) > 0
    assert all(not answer["qps"] for answer in lab.agents.call("hello").values()), "queue pairs are taken back"


@pytest.mark.parametrize("qps", [3, 8])
def test_messages_go_over_several_queue_pairs_in_parts(qps: int) -> None:
    lab = a_lab()
    run = JobRun(lab.agents, lab.clos, a_plan(lab, "ring_allreduce", qps_per_pair=qps, transport="roce"))
    run.start()
    right(finish(lab, run), 3)


@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_any_number_of_ranks_and_sizes_that_do_not_divide(ranks: int) -> None:
    lab = a_lab()
    for kind in ("ring_allreduce", "all_to_all", "sendrecv"):
        run = JobRun(lab.agents, lab.clos, a_plan(lab, kind, ranks, message_bytes=20_004))
        run.start()
        right(finish(lab, run), 3)


def test_all_reduce_of_eight_hosts_over_mrc_while_a_link_flaps() -> None:
    lab = a_lab()
    run = JobRun(lab.agents, lab.clos, a_plan(lab, "ring_allreduce", operations=6))
    run.start()
    for _ in range(10):
        lab.network.silence(T0_T1)
        lab.run(40 * MS)
        lab.network.unsilence(T0_T1)
        lab.run(60 * MS)
    report = finish(lab, run)
    right(report, 6)
    assert not report.interruptions


def test_a_dead_path_ends_a_queue_pair_of_roce_and_the_job_says_so() -> None:
    """All T1s of the only plane go silent for good: nothing goes from rack to rack any more."""
    lab = a_lab(planes=1)
    run = JobRun(lab.agents, lab.clos, a_plan(lab, "ring_allreduce", transport="roce", options={"timeout_exponent": 3}))
    run.start()
    lab.run(20 * MS)
    for t1 in range(4):
        lab.network.silence(f"p0t0-0:p0t1-{t1}")
    report = finish(lab, run)
    assert report.failed and report.operations < 3 and report.bytes_wrong == 0
    [interruption] = report.interruptions
    assert "retries exhausted" in interruption.why
    assert interruption.host in {"h3", "h7", "h0", "h4"}, "a rank that sends to the other rack, or hears from there"


def test_training_goes_on_where_it_was_after_a_restart_that_costs_its_time() -> None:
    lab = a_lab(planes=1)
    cost_ns = 500 * MS
    plan = a_plan(
        lab,
        "training",
        operations=8,
        compute_ns=20 * MS,
        transport="roce",
        options={"timeout_exponent": 3},
        restart_cost_ns=cost_ns,
    )
    run = JobRun(lab.agents, lab.clos, plan)
    run.start()
    lab.run(150 * MS)
    links = [f"p0t0-0:p0t1-{t1}" for t1 in range(4)]
    for link in links:
        lab.network.silence(link)
    while not run.result().interruptions:
        run.poll(lab.events.now)
        lab.run(POLL_NS)
    for link in links:
        lab.network.unsilence(link)
    report = finish(lab, run)
    right(report, 8)
    [interruption] = report.interruptions
    assert 0 < interruption.operations < 8
    assert report.elapsed_ns is not None and report.elapsed_ns > cost_ns + 8 * 20 * MS
    assert percentile(report.durations_ns, 50) < cost_ns, "a step itself does not take the restart's time"


def test_in_training_the_slowest_rank_holds_everybody() -> None:
    lab = a_lab()
    run = JobRun(lab.agents, lab.clos, a_plan(lab, "training", operations=4, message_bytes=4096, compute_ns=20 * MS))
    run.start()
    lab.hosts[5].stall(for_ns=200 * MS)
    report = finish(lab, run)
    right(report, 4)
    assert percentile(report.durations_ns, 99) > 150 * MS and percentile(report.durations_ns, 50) < 60 * MS


def test_what_cannot_be_is_refused_before_anything_is_made() -> None:
    lab = a_lab()
    good = a_plan(lab, "sendrecv")
    for changes, message in (
        ({"hosts": ["h0"] * 8}, "two ranks on one host"),
        ({"hosts": ["h0", "h1"]}, "8 ranks on 2 hosts"),
        ({"hosts": [f"h{n}" for n in range(1, 9)]}, "no host h8"),
        ({"qps_per_pair": 0}, "0 queue pairs"),
    ):
        fields = {"job": good.job, "hosts": good.hosts, **changes}
        with pytest.raises(InputError, match=message):
            JobRun(lab.agents, lab.clos, JobPlan(**fields))
    for fields, message in (
        ({"kind": "gossip"}, "there are: write_lat, sendrecv"),
        ({"kind": "write_lat", "ranks": 3}, "2 to 2"),
        ({"ranks": 0}, "2 to 256"),
        ({"ranks": 257}, "2 to 256"),
        ({"message_bytes": 6}, "multiple of 4"),
        ({"first": 4}, "beyond operations"),
    ):
        common = {"kind": "training", "ranks": 8, "message_bytes": 64, "operations": 3, "seed": 1}
        with pytest.raises(ValueError, match=message):
            Job(**common | fields)  # type: ignore[arg-type]
