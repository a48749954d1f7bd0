"""What a comparison reads off runs written by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from testbed.compare import figures
from testbed.compare.figures import Observed, observe
from testbed.measure.judgement import Judgement
from testbed.measure.record import QpFailed, Run
from testbed.report.summary import summarise
from tests.unit.measure import handmade
from tests.unit.measure.handmade import PLANE_BPS, fault, loss, ns


def seen(run: Run) -> Observed:
    return observe(run, summarise(run, Judgement("pass")))


def by_hand(**options: object) -> Observed:
    told = {"seed": 1, "verdict": "pass", "reasons": [], "warnings": [], "interrupted": "", "figures": {}, "curve": []}
    return Observed(**{**told, **options})  # type: ignore[arg-type]


def test_streams_jobs_and_faults_are_read() -> None:
    run = handmade.run(faults=(fault(3, 4),))
    run.jobs.append(handmade.job(of_line_rate=0.5))
    run.events += [loss(3.01), loss(3.11), QpFailed(ns(3.5), "h0>h2", "retries exhausted")]
    found = seen(run).figures
    assert found["goodput_bps"] == pytest.approx(16 * PLANE_BPS, rel=0.01)
    assert found["workloads[0].jain_index"] == pytest.approx(1)
    assert found["rerouted_s"] == pytest.approx(0.1)
    assert (found["packets_lost"], found["qp_errors"], found["bytes_wrong"]) == (2, 1, 0)
    assert found["jobs[1, ring_allreduce, 1048576].busbw_bps"] == pytest.approx(0.5 * 80e6 * 0.968, rel=0.01)
    titles = [row.words for row in figures.rows([seen(run)])]
    assert "ring_allreduce of 1 MB: bus bandwidth" in titles and "streams 0: Jain's index" in titles


def test_a_stall_that_never_ends_is_never_and_not_long() -> None:
    run = handmade.run(rate=lambda flow, plane, t_s: 0 if t_s >= 3 else PLANE_BPS, faults=(fault(3, None),))
    found = seen(run)
    assert found.figures["recovered_s"] == inf and found.figures["dip"] == pytest.approx(1)
    [row] = [row for row in figures.rows([found]) if row.key == "recovered_s"]
    assert row.show(inf) == "never"


def test_curves_are_the_middle_of_the_valid_runs() -> None:
    runs = [by_hand(curve=[1.0, 2.0]), by_hand(curve=[3.0, 4.0, 9.0]), by_hand(curve=[2.0, 8.0])]
    runs.append(by_hand(curve=[100.0], verdict="invalid"))
    assert figures.middle_curve(runs) == ([1, 2, 9], [2, 4, 9], [3, 8, 9])


def test_the_better_setting_carries_more() -> None:
    slow = by_hand(figures={"goodput_bps": 1e6, "jobs[1, sendrecv, 4096].busbw_bps": 1e6})
    fast = replace(slow, figures={"goodput_bps": 1e6, "jobs[1, sendrecv, 4096].busbw_bps": 3e6})
    assert figures.score([slow]) < figures.score([slow, fast]) < figures.score([fast])
    void = replace(fast, verdict="invalid")
    assert figures.worth([void]) < figures.worth([slow]) < figures.worth([fast])
