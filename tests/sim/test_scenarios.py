"""Scenario files in virtual time: judged like a run, at the lab's rates and the real ones, and the same again."""

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.chaos.runner import RunResult
from testbed.chaos.scenario import load_scenario
from testbed.chaos.virtual import simulate
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
        assert other["goodput_bps"]["mean"] == pytest.approx(5000 * one["goodput_bps"]["mean"], rel=0.02)
    for one, other in zip(slow.summary["faults"], fast.summary["faults"], strict=True):
        assert one["at_s"] == pytest.approx(5000 * other["at_s"])
        assert one["packets_lost"] > 0 and other["packets_lost"] > 0


def test_without_retiring_evs_the_verdict_is_fail(tmp_path: Path) -> None:
    result = play(tmp_path / "bad", overrides=["transport.retire_evs=false"])
    assert (result.verdict, result.exit_code) == ("fail", 1)
    missed = {one["name"] for one in result.summary["expectations"] if not one["ok"]}
    assert missed == {"rerouted_within"}
    assert sum(flow["bytes_wrong"] for flow in result.summary["flows"]) == 0


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
