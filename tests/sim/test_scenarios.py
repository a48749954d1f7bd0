"""Scenario files in virtual time: judged like a run, at the lab's rates and the real ones, and the same again."""

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.chaos.runner import RunResult
from testbed.chaos.scenario import load_scenario
from testbed.chaos.virtual import simulate
from testbed.topology import library
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab

SHORT = """
lab: tiny
seed: 3
duration: 1500 ms
warmup: 400 ms
workloads:
  - {kind: write_bw, pairs: across, message: 32 KB, load: 60%}
faults:
  - {kind: link-down, target: "p0t0-0:p0t1-1", at: 700 ms, for: 200 ms}
  - {kind: link-down, target: "h1:p1t0-0", end: far, at: 1100 ms, for: 200 ms}
expect:
  bytes_wrong: 0
  qp_errors: 0
  undelivered_messages: 0
  rerouted_within: 100 ms
  evs_restored_within: 400 ms
"""


def play(folder: Path, text: str = SHORT, **options: Any) -> RunResult:
    """Simulate a scenario; results in `folder`."""
    folder.mkdir()
    file = folder / "short.yaml"
    file.write_text(text)
    scenario = load_scenario(file, options.pop("overrides", ()))
    return simulate(scenario, load_lab(scenario.lab), folder / "out", **options)


def files(result: RunResult) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in result.paths.items()}


@pytest.mark.parametrize("real_rates", [False, True])
def test_the_same_seed_is_the_same_run_to_the_last_byte(tmp_path: Path, real_rates: bool) -> None:
    first, second, other = (
        play(tmp_path / str(number), real_rates=real_rates, seed=seed) for number, seed in enumerate((5, 5, 6))
    )
    assert first.verdict == "pass", first.summary
    assert files(first) == files(second)
    assert files(first)["samples"] != files(other)["samples"]


def test_real_rates_divide_the_times_and_keep_the_bytes(tmp_path: Path) -> None:
    slow, fast = play(tmp_path / "slow"), play(tmp_path / "fast", real_rates=True)
    assert (slow.verdict, fast.verdict) == ("pass", "pass")
    assert slow.summary["time_dilation"] == 5000 * fast.summary["time_dilation"] == 5000
    assert slow.summary["duration_s"] == pytest.approx(5000 * fast.summary["duration_s"])
    for one, other in zip(slow.summary["flows"], fast.summary["flows"], strict=True):
        assert other["bytes_delivered"] == pytest.approx(one["bytes_delivered"], rel=0.01)
        # of the run's own time: after the last fault a flow catches up in round trips, which count more at real rates
        assert other["goodput_bps"]["mean"] == pytest.approx(5000 * one["goodput_bps"]["mean"], rel=0.06)
    for one, other in zip(slow.summary["faults"], fast.summary["faults"], strict=True):
        assert one["at_s"] == pytest.approx(5000 * other["at_s"])
        assert one["packets_lost"] > 0 and other["packets_lost"] > 0


def test_without_retiring_evs_the_verdict_is_fail(tmp_path: Path) -> None:
    result = play(tmp_path / "bad", overrides=["transport.retire_evs=false"])
    assert (result.verdict, result.exit_code) == ("fail", 1)
    missed = {one["name"] for one in result.summary["expectations"] if not one["ok"]}
    assert missed == {"rerouted_within"}
    assert sum(flow["bytes_wrong"] for flow in result.summary["flows"]) == 0


FIXED = "transport: {congestion: fixed, window: 256 KB}"
MARKS_OFF = """faults:
  - {kind: ecn-off, target: "links tier=t0-t1", at: 100 ms}

workloads:"""


@pytest.mark.parametrize(
    ("name", "harm", "missed"),
    [
        ("ev-swap", ("workloads:", "workloads:"), set()),
        ("ev-swap", ("evs_per_plane: 2", "evs_per_plane: 2\n  retire_evs: false"), {"packets_lost_per_qp"}),
        ("contended-path", ("workloads:", "workloads:"), set()),
        ("contended-path", ("workloads:", MARKS_OFF), {"min_flow_of_offered"}),
        pytest.param("incast-seven", ("workloads:", "workloads:"), set(), marks=pytest.mark.full),
        pytest.param(
            "incast-seven",
            ("workloads:", f"{FIXED}\nworkloads:"),
            {"min_flow_of_offered"},
            marks=pytest.mark.full,
        ),
    ],
)
def test_the_papers_figures_12_to_14_and_18(tmp_path: Path, name: str, harm: tuple[str, str], missed: set[str]) -> None:
    text = library.find("scenarios", name).read_text().replace(*harm)
    result = play(tmp_path / "run", text)
    assert {one["name"] for one in result.summary["expectations"] if not one["ok"]} == missed
    assert result.verdict == ("fail" if missed else "pass")


@pytest.mark.parametrize(("t1s", "verdict"), [("t1s: 1, ", "pass"), ("", "fail")])
def test_a_workload_that_is_held_to_the_first_t1_misses_no_other(tmp_path: Path, t1s: str, verdict: str) -> None:
    text = f"""
lab: tiny
duration: 1500 ms
warmup: 400 ms
workloads:
  - {{kind: write_bw, pairs: across, {t1s}load: 30%}}
faults:
  - {{kind: not-forwarding, target: switch p0t1-1, at: 700 ms, for: 200 ms}}
expect:
  packets_lost: 0
"""
    assert play(tmp_path / "run", text).verdict == verdict


def test_a_workload_cannot_have_more_t1s_than_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"short.yaml:7: 3 T1s of each plane; the lab has 2"):
        play(tmp_path / "run", SHORT.replace("load: 60%", "load: 60%, t1s: 3"))


def test_what_a_run_records_is_recorded(tmp_path: Path) -> None:
    result = play(tmp_path / "run")
    events = [json.loads(line) for line in result.paths["events"].read_text().splitlines()]
    assert {"fault", "packet-lost", "ev-changed", "carrier-changed", "plane-changed"} <= {
        event["event"] for event in events
    }
    acts = [(event["t_s"], event["target"], event["active"]) for event in events if event["event"] == "fault"]
    assert acts == [
        (0.7, "p0t0-0:p0t1-1", True),
        (0.9, "p0t0-0:p0t1-1", False),
        (1.1, "h1:p1t0-0", True),
        (1.3, "h1:p1t0-0", False),
    ], "to the nanosecond"
    assert result.summary["virtual"]
    assert "Virtual time" in result.paths["report"].read_text()


def test_a_scenario_that_does_not_fit_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="p9t0-0"):
        play(tmp_path / "bad", SHORT.replace("p0t0-0:p0t1-1", "p9t0-0:p0t1-1"))
    assert not (tmp_path / "bad" / "out").exists()
