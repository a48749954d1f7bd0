"""Whole runs on a real lab: verified traffic, faults that are put in and undone, verdicts, and runs that are cut short.

    h0, h1 -- T0-0 -- T1-0, T1-1 -- T0-1 -- h2, h3      in each of two planes; h0 and h2, h1 and h3 send to each other

Other work on the machine may make a run invalid; so these tests look at what was measured, and at the verdict only
where slowness is no excuse.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.chaos import by_hand
from testbed.chaos.journal import Journal
from testbed.chaos.kinds.kind import End
from testbed.chaos.runner import RunResult, run_scenario
from testbed.chaos.scenario import load_scenario
from testbed.fabric import netns
from testbed.fabric.observe import snapshot
from testbed.lab import lifecycle, lock, state
from testbed.lab.running import RunningLab, open_lab
from testbed.measure.record import FaultActed, Run, RunEvent
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab
from tests.kernel.labs import lab_like

pytestmark = pytest.mark.kernel

LAB = "ch-run"
FABRIC_LINK = "p0t0-0:p0t1-1"
NIC_LINK = "h1:p1t0-0"

SCENARIO = """\
lab: {lab}
duration: {duration} ms
warmup: 500 ms
workloads:
  - {{kind: write_bw, pairs: across, message: 32 KB, load: 30%}}
{faults}
expect:
  bytes_wrong: 0
  qp_errors: 0
  undelivered_messages: 0
  packets_lost_per_qp: 30
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """A lab like `tiny`, up for all tests of this module."""
    with lab_like("tiny", LAB, tmp_path_factory.mktemp("labs")) as running:
        yield running


@pytest.fixture
def untouched(lab: RunningLab) -> Iterator[None]:
    """After the test the kernel state of all nodes is as before, no fault is in, and no queue pair is left."""
    before = snapshot(lab.kernel, lab.clos.nodes)
    yield
    assert by_hand.active(lab) == []
    assert snapshot(lab.kernel, lab.clos.nodes) == before
    with lab.agents() as agents:
        assert all(answer["qps"] == [] for answer in agents.call("hello").values())


def scenario_file(folder: Path, duration_ms: int = 3000, faults: tuple[str, ...] = ()) -> Path:
    """A scenario; each fault is what stands in the braces after `kind: link-down`."""
    lines = "faults:\n" + "".join(f"  - {{kind: link-down, {fault}}}\n" for fault in faults) if faults else ""
    path = folder / "case.yaml"
    path.write_text(SCENARIO.format(lab=LAB, duration=duration_ms, faults=lines))
    return path


def run(
    lab: RunningLab,
    folder: Path,
    *faults: str,
    overrides: tuple[str, ...] = (),
    live: Callable[[Run, int, list[RunEvent]], None] | None = None,
) -> RunResult:
    return run_scenario(load_scenario(scenario_file(folder, faults=faults), overrides), lab, folder / "out", live=live)


def value_of(result: RunResult, name: str) -> Any:
    return next(row["value"] for row in result.summary["expectations"] if row["name"] == name)


@contextlib.contextmanager
def run_process(folder: Path, scenario: Path, lab: str = LAB) -> Iterator[subprocess.Popen[str]]:
    """The run as a process of its own, ended with the block."""
    argv = [sys.executable, "-m", "tests.kernel.run_command", lab, str(scenario), str(folder / "out")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    """Until the run says that it has seen this."""
    assert process.stdout is not None
    for line in process.stdout:
        if word in line.split():
            return
    pytest.fail(f"the run ended without {word}: {process.stderr.read() if process.stderr else ''}")


# --- runs


@pytest.mark.usefixtures("untouched")
def test_every_byte_arrives_and_all_files_are_written(lab: RunningLab, tmp_path: Path) -> None:
    result = run(lab, tmp_path)
    assert (value_of(result, "bytes_wrong"), value_of(result, "qp_errors")) == (0, 0)
    assert value_of(result, "undelivered_messages") == 0
    offered_bytes = 0.3 * 2 * 20e6 / 8 * 0.9 * 3
    assert all(flow["bytes_delivered"] > offered_bytes / 2 for flow in result.summary["flows"])
    assert json.loads(result.paths["summary"].read_text()) == result.summary
    assert "</html>" in result.paths["report"].read_text()
    samples = [json.loads(line) for line in result.paths["samples"].read_text().splitlines()]
    per_second = sum("bytes_by_plane" in row and row["flow"] == "h0>h2" for row in samples) / 3
    assert per_second >= 10


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("end", ["near", "far", "both"])
def test_a_fabric_link_down_costs_some_packets_on_that_link_and_is_undone(
    lab: RunningLab, tmp_path: Path, end: End
) -> None:
    result = run(lab, tmp_path, f'target: "{FABRIC_LINK}", end: {end}, at: 1 s, for: 800 ms')
    (fault,) = result.summary["faults"]
    assert (fault["target"], fault["end"], fault["by"]) == (FABRIC_LINK, end, "run")
    assert fault["packets_lost"] > 0
    assert fault["rerouted_s"] < fault["for_s"] / 2
    assert fault["restored_s"] is not None
    assert fault["evs_not_restored"] == 0
    assert (value_of(result, "bytes_wrong"), value_of(result, "undelivered_messages")) == (0, 0)


@pytest.mark.usefixtures("untouched")
def test_a_nic_link_down_moves_the_hosts_traffic_to_its_other_plane(lab: RunningLab, tmp_path: Path) -> None:
    result = run(lab, tmp_path, f'target: "{NIC_LINK}", end: far, at: 1 s, for: 1500 ms')
    planes = {(flow["src"], flow["dst"]): flow["planes"] for flow in result.summary["flows"]}
    for ends in (("h1", "h3"), ("h3", "h1")):
        assert planes[ends][1]["bytes_received"] < 0.8 * planes[ends][0]["bytes_received"]
    assert planes["h0", "h2"][1]["bytes_received"] > 0.9 * planes["h0", "h2"][0]["bytes_received"]
    assert (value_of(result, "bytes_wrong"), value_of(result, "undelivered_messages")) == (0, 0)
    assert result.summary["faults"][0]["evs_not_restored"] == 0


@pytest.mark.usefixtures("untouched")
def test_without_retiring_evs_the_same_fault_costs_packets_to_its_end(lab: RunningLab, tmp_path: Path) -> None:
    fault = f'target: "{FABRIC_LINK}", end: near, at: 1 s, for: 1 s'
    result = run(lab, tmp_path, fault, overrides=("transport.retire_evs=false", "expect.rerouted_within=250 ms"))
    assert (result.verdict, result.exit_code) == ("fail", 1)
    missed = {row["name"] for row in result.summary["expectations"] if not row["ok"]}
    assert missed == {"rerouted_within", "packets_lost_per_qp"}
    assert value_of(result, "rerouted_within") > 0.8


@pytest.mark.usefixtures("untouched")
def test_a_fault_by_hand_during_a_run_is_in_its_record(lab: RunningLab, tmp_path: Path) -> None:
    seen: list[RunEvent] = []

    def meddle(run: Run, now_ns: int, events: list[RunEvent]) -> None:
        seen.extend(event for event in events if isinstance(event, FaultActed))
        if run.seconds(now_ns) > 1 and not seen:
            by_hand.put(lab, "link-down", "p0t1-1:p0t0-0", "far")
        elif run.seconds(now_ns) > 2 and len(seen) == 1:
            by_hand.clear(lab)

    result = run(lab, tmp_path, live=meddle)
    (fault,) = result.summary["faults"]
    assert (fault["by"], fault["target"], fault["end"]) == ("hand", FABRIC_LINK, "far")
    assert fault["packets_lost"] > 0
    assert [event.active for event in seen if isinstance(event, FaultActed)] == [True, False]


@pytest.mark.usefixtures("untouched")
def test_a_run_leaves_a_fault_by_hand_alone(lab: RunningLab, tmp_path: Path) -> None:
    by_hand.put(lab, "link-down", FABRIC_LINK, "both")
    try:
        result = run(lab, tmp_path, f'target: "{FABRIC_LINK}", end: near, at: 1 s, for: 500 ms')
        assert [fault["by"] for fault in result.summary["faults"]] == ["hand", "run"]
        assert [fault.by for fault in by_hand.active(lab)] == ["hand"]
        assert (value_of(result, "bytes_wrong"), value_of(result, "undelivered_messages")) == (0, 0)
    finally:
        by_hand.clear(lab)


# --- cut short


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_with_its_faults_undone_and_what_there_is_written(
    lab: RunningLab, tmp_path: Path, number: signal.Signals
) -> None:
    scenario = scenario_file(tmp_path, 60_000, (f'target: "{FABRIC_LINK}", at: 500 ms',))
    with run_process(tmp_path, scenario) as process:
        wait_for(process, "FaultActed")
        process.send_signal(number)
        assert process.wait(20) == 4
        assert process.stderr is not None
        assert process.stderr.read() == ""
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["verdict"] == "invalid"
    assert number.name in summary["reasons"][0]
    assert summary["faults"][0]["for_s"] is not None
    assert sum(flow["bytes_delivered"] for flow in summary["flows"]) > 0
    assert sum(flow["bytes_wrong"] for flow in summary["flows"]) == 0


@pytest.mark.usefixtures("untouched")
def test_what_a_killed_run_left_is_put_right_by_the_next(lab: RunningLab, tmp_path: Path) -> None:
    scenario = scenario_file(tmp_path, 60_000, (f'target: "{FABRIC_LINK}", end: both, at: 500 ms',))
    with run_process(tmp_path, scenario) as process:
        wait_for(process, "FaultActed")
        process.kill()
        process.wait(20)
    assert [fault.target for fault in Journal(lab.dir).active()] == [FABRIC_LINK]
    result = run(lab, tmp_path)
    assert result.summary["faults"] == []
    assert (value_of(result, "bytes_wrong"), value_of(result, "undelivered_messages")) == (0, 0)


@pytest.mark.usefixtures("untouched")
def test_a_fault_of_a_killed_run_can_be_cleared_by_hand(lab: RunningLab, tmp_path: Path) -> None:
    scenario = scenario_file(tmp_path, 60_000, (f'target: "{NIC_LINK}", end: near, at: 500 ms',))
    with run_process(tmp_path, scenario) as process:
        wait_for(process, "FaultActed")
        process.kill()
        process.wait(20)
    assert [fault.target for fault in by_hand.clear(lab)] == [NIC_LINK]
    run(lab, tmp_path)  # takes the queue pairs back that were left


def test_when_an_agent_dies_the_run_ends_says_so_and_undoes_its_faults(
    lab_file: Callable[[str, str], Path], tmp_path: Path
) -> None:
    path = lab_file("tiny", "ch-dead")
    lifecycle.up(load_lab(path), path)
    with open_lab("ch-dead") as damaged:

        def kill_one(run: Run, now_ns: int, events: list[RunEvent]) -> None:
            if any(isinstance(event, FaultActed) for event in events):
                os.kill(damaged.agent_pids["h3"], signal.SIGKILL)

        result = run(damaged, tmp_path, f'target: "{FABRIC_LINK}", end: near, at: 500 ms', live=kill_one)
        assert (result.verdict, result.exit_code) == ("invalid", 4)
        assert result.judgement.reasons[0].startswith("agent h3")
        assert by_hand.active(damaged) == []
        assert result.summary["duration_s"] < 3
        assert result.summary["faults"][0]["for_s"] is not None


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.full)])
def test_a_lab_whose_run_was_killed_at_any_moment_goes_down_and_comes_up_again(
    lab_file: Callable[[str, str], Path], tmp_path: Path, rng: random.Random, kills: int
) -> None:
    path = lab_file("tiny", "ch-killed")
    scenario = scenario_file(tmp_path, 60_000, (f'target: "{FABRIC_LINK}", end: far, at: 300 ms',))
    for _ in range(kills):
        assert not lifecycle.up(load_lab(path), path).already_up
        after_s = rng.uniform(0.1, 3.0)
        with run_process(tmp_path, scenario, "ch-killed") as process:
            with pytest.raises(subprocess.TimeoutExpired):  # the run outlives the time that is given to it
                process.wait(after_s)
            process.kill()
        lifecycle.down("ch-killed")
        assert not [name for name in netns.names() if name.startswith("ch-killed.")], after_s
        assert not state.directory("ch-killed").exists(), after_s


# --- refused


def test_a_scenario_that_does_not_fit_the_lab_starts_nothing(lab: RunningLab, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"case.yaml:\d+: lab ch-run has no link 'p0t0-0:p0t1-9'"):
        run(lab, tmp_path, 'target: "p0t0-0:p0t1-9", at: 1 s')
    assert not (tmp_path / "out").exists()


def test_a_second_run_on_the_same_lab_is_refused(lab: RunningLab, tmp_path: Path) -> None:
    with lock.exclusive(LAB, "run other"), pytest.raises(InputError, match="lab ch-run is busy: run other"):
        run(lab, tmp_path)


def test_faults_by_hand_name_the_nearest_link(lab: RunningLab) -> None:
    with pytest.raises(InputError, match="did you mean 'h1:p1t0-0'"):
        by_hand.put(lab, "link-down", "h1:p1t0-9")


def test_an_agent_that_is_paused_goes_on_where_it_was(lab: RunningLab, untouched: None, tmp_path: Path) -> None:
    path = scenario_file(tmp_path)
    path.write_text(
        path.read_text().replace("expect:", "faults:\n  - {kind: agent-pause, target: host h2, at: 1 s}\nexpect:")
    )
    result = run_scenario(load_scenario(path), lab, tmp_path / "out", report=False)
    assert result.summary["interrupted"] == ""
    assert (
        value_of(result, "bytes_wrong")
        == value_of(result, "qp_errors")
        == value_of(result, "undelivered_messages")
        == 0
    )
    assert result.summary["faults"][0]["for_s"] > 0.15


def test_an_agent_that_is_killed_takes_its_flows_with_it_and_the_run_says_so(
    lab: RunningLab, untouched: None, tmp_path: Path
) -> None:
    path = scenario_file(tmp_path)
    fault = "{kind: agent-restart, target: host h2, at: 1 s, for: 500 ms}"
    path.write_text(path.read_text().replace("expect:", f"faults:\n  - {fault}\nexpect:"))
    result = run_scenario(load_scenario(path), lab, tmp_path / "out", report=False)
    assert result.summary["interrupted"] == ""
    assert value_of(result, "qp_errors") >= 2  # of the flows to and from h2
    assert value_of(result, "bytes_wrong") == 0
    delivered = {(flow["src"], flow["dst"]): flow["bytes_delivered"] for flow in result.summary["flows"]}
    assert delivered["h1", "h3"] > 0 and delivered["h3", "h1"] > 0


def test_bytes_that_a_link_spoils_behind_the_icrcs_back_are_found(
    lab: RunningLab, untouched: None, tmp_path: Path
) -> None:
    path = scenario_file(tmp_path)
    fault = f'{{kind: corrupt-unseen, target: "{FABRIC_LINK}", at: 1 s, for: 500 ms, share: 20%}}'
    path.write_text(path.read_text().replace("expect:", f"faults:\n  - {fault}\nexpect:"))
    result = run_scenario(load_scenario(path), lab, tmp_path / "out", report=False)
    assert (result.verdict, result.exit_code) == ("fail", 1), "no slowness of the machine excuses a wrong byte"
    assert "bytes_wrong" in result.judgement.reasons
    assert value_of(result, "bytes_wrong") >= 5  # a packet has five
    assert value_of(result, "undelivered_messages") == 0
