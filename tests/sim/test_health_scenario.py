"""The denylist policy as a scenario: with it the losses of a lossy NIC's link end, without it they go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.chaos import check
from testbed.chaos.scenario import load_scenario
from testbed.chaos.virtual import simulate
from testbed.topology import clos
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab


@pytest.mark.parametrize(("act_at", "passes"), [("17 s", True), ("32 s", False)])
def test_losses_end_when_the_host_may_act_and_only_then(act_at: str, passes: bool, tmp_path: Path) -> None:
    scenario = load_scenario("nic-link-denied", [f"health.act_at={act_at}"])
    result = simulate(scenario, load_lab("demo"), tmp_path, report=passes)
    rows = {row.name: row.ok for row in result.judgement.expectations}
    assert rows["rerouted_within"] == passes and rows["bytes_wrong"]
    if passes:
        assert "plane-decided" in (tmp_path / "events.jsonl").read_text()
        assert "h1 has denied plane 2" in (tmp_path / "report.html").read_text()


@pytest.mark.full
def test_with_the_policy_a_job_has_what_it_has_with_the_link_cut_and_without_it_less(tmp_path: Path) -> None:
    result = simulate(load_scenario("nic-link-job"), load_lab("demo"), tmp_path, report=False)
    observed, acted, cut = (fault["goodput_bps"] for fault in result.summary["faults"])
    assert result.verdict == "pass"
    assert observed < 0.85 * cut and acted > 0.88 * cut, "until the plane is denied there is less"


@pytest.mark.parametrize(
    ("override", "lab", "complaint"),
    [
        ("health.interval=200 us", "demo", "too short"),
        ("health.loss_bound=0.1%", "demo", "cannot be told"),
        ("health.act_at=33 s", "demo", "the run ends at 33 s"),
        ("health.policy=observe", "baseline", "chooses for them"),
        ("health.policies=act", "demo", "policy"),
    ],
)
def test_what_makes_no_sense_is_refused(override: str, lab: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        check.check(load_scenario("nic-link-denied", [override]), clos.build(load_lab(lab)))
