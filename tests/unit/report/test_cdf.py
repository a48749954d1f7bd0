"""Pictures of several campaigns over one axis."""

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.measure.campaign import FIGURES
from testbed.report import cdf, figures

pytestmark = pytest.mark.skipif(not figures.available(), reason="matplotlib is not installed")


def campaign(folder: Path, *rerouted_s: float | None) -> Path:
    folder.mkdir()
    for seed, value in enumerate(rerouted_s):
        ports = {"unused_s": None, "unused_round_trips": None}
        names = (figure.key for figure in FIGURES if "." not in figure.key)
        faults: dict[str, Any] = dict.fromkeys(names)
        told = {"verdict": "pass", "faults": [{**faults, "rerouted_s": value, "evs_not_restored": 0, "ports": ports}]}
        (folder / f"seed-{seed}.json").write_text(json.dumps(told))
    return folder


def test_a_picture_has_a_curve_for_each_campaign_that_has_the_figure(tmp_path: Path) -> None:
    some, none = campaign(tmp_path / "some", 0.01, 0.03, None), campaign(tmp_path / "none", None)
    (path,) = cdf.write(tmp_path, {"lab": cdf.read(some), "virtual": cdf.read(none)})
    text = path.read_text()
    assert path.name == "campaign-rerouted.svg" and text.startswith("<svg")
    assert "lab (2 faults)" in text and "virtual" not in text


def test_the_table_has_a_row_for_each_campaign_that_has_the_figure(tmp_path: Path) -> None:
    campaigns = {"lab": cdf.read(campaign(tmp_path / "some", *(0.001 * step for step in range(1, 21))))}
    *_, row = cdf.table(campaigns).splitlines()
    assert row == "| time from the first packet lost to the last | lab | 20 | 10 ms | 6 ms to 15 ms | 19 ms | 20 ms |"
