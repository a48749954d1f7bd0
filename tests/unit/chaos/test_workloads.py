"""The traffic that a scenario file may ask for, streams and jobs, and the words for what it must not ask."""

from pathlib import Path

import pytest

from agents.workloads.programs import KINDS
from testbed.chaos import check, jobs
from testbed.chaos.scenario import Scenario, load_scenario
from testbed.chaos.workload import JobWorkload
from testbed.topology.errors import InputError
from tests.unit.chaos import scenarios

HEAD = "lab: small\nduration: 5 s\nworkloads:\n"


def load(folder: Path, *workloads: str) -> Scenario:
    scenario = load_scenario(scenarios.write(folder, HEAD + "".join(f"  - {{{one}}}\n" for one in workloads)))
    check.check(scenario, scenarios.small_lab())
    return scenario


def names(scenario: Scenario) -> list[str]:
    return [flow.name for _, flow in check.flows(scenario, scenarios.small_lab())]


def test_every_kind_of_job_is_in_the_schema(tmp_path: Path) -> None:
    for kind in KINDS:
        [workload] = load(tmp_path, f"kind: {kind}").workloads
        assert isinstance(workload, JobWorkload) and workload.kind == kind


def test_ranks_take_all_hosts_unless_told_otherwise(tmp_path: Path) -> None:
    assert names(load(tmp_path, "kind: ring_allreduce")) == ["h0>h1", "h1>h2", "h2>h3", "h3>h0"]
    assert names(load(tmp_path, "kind: sendrecv, ranks: 2")) == ["h0>h1", "h1>h0"]
    assert names(load(tmp_path, "kind: training, hosts: [h0, h3, h1]")) == ["h0>h3", "h3>h1", "h1>h0"]
    assert len(names(load(tmp_path, "kind: all_to_all"))) == 4 * 3
    assert names(load(tmp_path, "kind: write_lat")) == ["h0>h1", "h1>h0"]


def test_a_job_is_a_plan_for_each_size(tmp_path: Path) -> None:
    line = "kind: training, message: [4 KB, 64 KB], repetitions: 3, qps: 8, compute: 20 ms, restart_cost: 1 s"
    scenario = load(tmp_path, line)
    [workload] = scenario.workloads
    assert isinstance(workload, JobWorkload)
    plans = jobs.plans(0, workload, scenarios.small_lab(), 7, {"transport": "roce", "options": {}})
    assert [plan.job.message_bytes for plan in plans] == [4 << 10, 64 << 10]
    assert {(plan.job.operations, plan.qps_per_pair, plan.open_end) for plan in plans} == {(3, 8, False)}
    assert {(plan.job.compute_ns, plan.restart_cost_ns) for plan in plans} == {(20_000_000, 1_000_000_000)}


def test_streams_and_a_job_side_by_side(tmp_path: Path) -> None:
    scenario = load(tmp_path, "kind: write_bw, pairs: [[h0, h2]], qps: 4", "kind: sendrecv, hosts: [h1, h3]")
    flows = [flow for _, flow in check.flows(scenario, scenarios.small_lab())]
    assert [(flow.name, flow.workload, flow.qps) for flow in flows] == [
        ("h0>h2", 0, 4),
        ("h1>h3", 1, 1),
        ("h3>h1", 1, 1),
    ]


@pytest.mark.parametrize(
    ("workload", "complaint"),
    [
        ("kind: ring_alreduce", "'workloads[0].kind' is 'ring_alreduce'; did you mean 'ring_allreduce'?"),
        ("kind: all_to_all, ranks: 0", "'workloads[0].ranks' is 0, less than 2; write 2 or more"),
        ("kind: all_to_all, ranks: 5", "5 ranks, but lab small has 4 hosts; write 4 or less"),
        ("kind: write_lat, ranks: 3", "write_lat with 3 ranks; it can have 2"),
        ("kind: sendrecv, hosts: [h0]", "sendrecv with 1 ranks; it can have 2 to 256"),
        ("kind: sendrecv, hosts: [h0, h9]", "'h9' is not a host of lab small; hosts are h0 to h3"),
        ("kind: sendrecv, hosts: [h0, h0]", "two ranks on one host; name each host once"),
        ("kind: sendrecv, hosts: [h0, h1], ranks: 2", "ranks and hosts both say how many there are; leave one out"),
        ("kind: ring_allreduce, message: 6 B", "6 bytes are no whole numbers; write a multiple of 4 bytes"),
        ("kind: ring_allreduce, message: 2 MB", "a message of 2 MB; write 1 MB or less"),
        ("kind: ring_allreduce, message: [4 KB, 8 KB]", "nothing says when the first of the sizes is over"),
        ("kind: sendrecv, compute: 5 ms", "sendrecv computes nothing; leave it out, or make it training"),
        ("kind: write_bw, qps: 0", "'workloads[0].qps' is 0, less than 1; write 1 or more"),
        ("kind: training, load: 50%", "unknown key 'load'"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, workload: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, workload)
    assert caught.value.exit_code == 2
    assert f"case.yaml:4: {complaint}" in str(caught.value)


def test_two_workloads_between_the_same_two_hosts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"case.yaml:5: h0 sends to h1 in an earlier workload already"):
        load(tmp_path, "kind: write_bw, pairs: [[h0, h1]]", "kind: sendrecv")
