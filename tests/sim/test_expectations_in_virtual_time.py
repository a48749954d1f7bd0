"""For every expectation a scenario that must miss it, and does: a run that breaks it shows what a limit is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.chaos.expectations import EXPECTATIONS
from testbed.chaos.runner import RunResult
from testbed.chaos.scenario import load_scenario
from testbed.chaos.virtual import simulate
from testbed.topology import library
from testbed.topology.labfile import load_lab

TEXT = """
lab: tiny
seed: 3
duration: 2 s
warmup: 400 ms
workloads:
  - {{kind: write_bw, pairs: [[h0, h2], [h1, h3]], message: 32 KB, load: 60%}}
faults:
  - {{{fault}}}
expect:
  {expect}
"""
CUT = 'kind: link-down, target: "p0t0-0:p0t1-1", at: 1 s, for: 300 ms'
NIC_DEAD = "kind: nic-transceiver, target: transceiver h2, at: 1 s, for: 400 ms"
LOSSY = 'kind: loss, target: "links tier=t0-t1", at: 1 s, for: 500 ms, loss: 5%'

# expectation -> (fault, limit that the run misses). Faults end with the run, and then all arrives, each byte checked.
MUST_FAIL = {
    "min_goodput_fraction": (NIC_DEAD, "95%"),
    "min_goodput_of_oracle": ('kind: loss, target: "links tier=t0-t1", at: 1 s, for: 800 ms, loss: 40%', "99%"),
    "goodput_off_oracle": ('kind: loss, target: "links tier=t0-t1", at: 1 s, for: 800 ms, loss: 40%', "1%"),
    "recovery_within": (NIC_DEAD, "100 ms"),
    "min_flow_of_offered": (NIC_DEAD, "95%"),
    "min_fairness": (NIC_DEAD, "99%"),
    "timeouts": (NIC_DEAD, "0"),
    "max_dip": (NIC_DEAD, "20%"),
    "rerouted_within": (LOSSY, "50 ms"),
    "packets_lost_per_qp": (CUT, "0"),
    "packets_lost": (CUT, "1"),
    "evs_restored_within": (CUT, "1 ms"),
    "bytes_wrong": ('kind: corrupt-unseen, target: "p0t0-0:p0t1-1", at: 1 s, for: 300 ms, share: 5%', "0"),
}
TINY = library.find("topologies", "tiny").read_text()

# What a fault that ends cannot break is missed by whole scenarios, each with a lab of its own.
MUST_FAIL_ELSEWHERE = {
    # far too slow for the messages that are under way when the run ends
    "undelivered_messages": (
        TINY.replace("20 Mb/s", "100 Kb/s"),
        """
workloads: [{kind: write_bw, pairs: [[h0, h2]], message: 1 MB, load: full}]
expect: {undelivered_messages: 0}
""",
    ),
    # a host that nothing reaches for so long that its peer gives up
    "qp_errors": (
        TINY,
        """
duration: 20 s
workloads: [{kind: write_bw, pairs: [[h0, h2]], message: 32 KB, load: 20%}]
faults: [{kind: black-hole, target: "links h2:p0t0-1 h2:p1t0-1", at: 1 s}]
expect: {qp_errors: 0}
""",
    ),
    # switches that neither mark nor trim, and a sender that does not slow down: what queues drop looks like dead paths
    "healthy_evs_retired": (
        TINY + "queue: {trimming: false, ecn: false, size: 32 KB}\n",
        """
transport: {congestion: fixed}
workloads: [{kind: write_bw, pairs: [[h0, h2], [h1, h2], [h3, h2]], message: 32 KB, load: full}]
expect: {healthy_evs_retired: 0}
""",
    ),
    "unused_within_round_trips": (
        TINY,
        """
transport: {retire_evs: false}
workloads: [{kind: write_bw, pairs: [[h0, h2]], message: 32 KB, load: 60%}]
faults: [{kind: black-hole, target: "p0t0-0:p0t1-1", at: 1 s, for: 300 ms}]
expect: {unused_within_round_trips: 3}
""",
    ),
}
OF_JOBS = {"interruptions", "unfinished_operations", "min_busbw_fraction"}  # missed in test_job_scenarios


def play(folder: Path, fault: str, expect: str) -> RunResult:
    path = folder / "case.yaml"
    path.write_text(TEXT.format(fault=fault, expect=expect))
    return simulate(load_scenario(path), load_lab("tiny"), folder / "out", report=False)


@pytest.mark.parametrize("name", MUST_FAIL)
def test_it_is_missed(name: str, tmp_path: Path) -> None:
    fault, limit = MUST_FAIL[name]
    result = play(tmp_path, fault, f"{name}: {limit}")
    assert (result.verdict, result.exit_code) == ("fail", 1)
    assert result.judgement.reasons == [name]


@pytest.mark.parametrize("name", MUST_FAIL_ELSEWHERE)
def test_it_is_missed_on_a_lab_of_its_own(name: str, tmp_path: Path) -> None:
    lab, text = MUST_FAIL_ELSEWHERE[name]
    (tmp_path / "own.yaml").write_text(lab)
    path = tmp_path / "case.yaml"
    head = "lab: own.yaml\nseed: 3\nwarmup: 400 ms\n" + ("" if "duration" in text else "duration: 2 s\n")
    path.write_text(head + text)
    scenario = load_scenario(path)
    result = simulate(scenario, load_lab(scenario.lab), tmp_path / "out", report=False)
    assert (result.verdict, result.exit_code) == ("fail", 1)
    assert result.judgement.reasons == [name]


def test_of_a_single_fault_too(tmp_path: Path) -> None:
    result = play(tmp_path, f"{CUT}, expect: {{packets_lost: 0}}", "bytes_wrong: 0")
    assert result.judgement.reasons == ["faults[0].packets_lost"]


def test_all_are_here() -> None:
    assert set(MUST_FAIL) | set(MUST_FAIL_ELSEWHERE) | OF_JOBS == set(EXPECTATIONS)


@pytest.mark.parametrize(
    "fault",
    [
        "kind: agent-pause, target: host h2, at: 1 s, for: 60 ms",
        'kind: delay, target: "p0t0-0:p0t1-1", at: 1 s, for: 300 ms, delay: 3 ms, delay_jitter: 1 ms',
        'kind: denylist-set, target: "p0t0-0:p0t1-1", at: 1 s, for: 300 ms',
        "kind: t1-reboot, target: switch p1t1-0, at: 1 s, for: 300 ms",
        'kind: ecn-mark-all, target: "links tier=t0-t1", at: 1 s, for: 300 ms',
        'kind: rate-drop, target: "p0t0-0:p0t1-1", at: 1 s, for: 300 ms, rate: 50%',
    ],
)
def test_nothing_is_lost_or_wrong_whatever_the_kind(fault: str, tmp_path: Path) -> None:
    result = play(tmp_path, fault, "bytes_wrong: 0\n  undelivered_messages: 0\n  qp_errors: 0")
    assert result.verdict == "pass", result.judgement


def test_links_on_the_denylist_are_left_without_a_loss_and_taken_back(tmp_path: Path) -> None:
    fault = 'kind: denylist-set, target: "p0t0-0:p0t1-1", at: 1 s, for: 300 ms'
    result = play(tmp_path, fault, "packets_lost: 0\n  evs_restored_within: 10 ms")
    (told,) = result.summary["faults"]
    assert result.verdict == "pass"
    assert told["evs_retired"] == 2  # one EV of each flow
