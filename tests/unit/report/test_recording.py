"""A recorded run is played by the live page's own messages: the same numbers, events and faults, in order of time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from testbed.measure.judgement import Judgement
from testbed.report import page, recording
from testbed.topology.errors import InputError
from tests.unit.measure.handmade import LINK, PLANE_BPS, STOP_S, cut, ns

PASSED = Judgement("pass")


def of_type(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [message for message in messages if message["type"] == kind]


def test_it_is_json_in_order_of_time_with_ten_ticks_a_second() -> None:
    messages = recording.record(cut(), PASSED)["messages"]
    json.dumps(messages)
    assert messages[0]["type"] == "scene" and len(messages[0]["links"]) == len(cut().clos.links)
    ticks = of_type(messages, "tick")
    assert [tick["t"] for tick in ticks] == list(range(0, round(STOP_S * 1000) + 1, 100))


def test_goodput_is_that_of_the_samples() -> None:
    ticks = of_type(recording.record(cut(), PASSED)["messages"], "tick")
    for tick in ticks[10:]:
        assert tick["planes"] == pytest.approx([4 * PLANE_BPS / 1000] * 4, rel=0.01)
        assert tick["flows"].keys() == {"h0>h2", "h1>h3", "h2>h0", "h3>h1"}


def test_while_a_link_is_cut_it_is_down_its_path_out_of_use_and_the_fault_in_force() -> None:
    messages = recording.record(cut(), PASSED)["messages"]
    ticks = {tick["t"]: tick for tick in of_type(messages, "tick")}
    assert [t for t, tick in ticks.items() if tick["down"]] == list(range(3000, 4000, 100))
    assert [t for t, tick in ticks.items() if tick["paths"]] == list(range(3100, 4200, 100))
    assert ticks[3500]["paths"] == {"h0>h2": [[1, 2, "ASSUMED_BAD"]]}
    begun, over = (one for one in of_type(messages, "faults") if one["t"])
    assert [one["target"] for one in begun["active"]] == [LINK] and begun["shades"] == [[3000, None]]
    assert over["active"] == [] and over["shades"] == [[3000, 4000]]


def test_the_story_and_what_the_fault_cost_are_told() -> None:
    told = [event["text"] for event in of_type(recording.record(cut(), PASSED)["messages"], "event")]
    assert any(text.startswith(f"LINK CUT   {LINK}") for text in told)
    assert f"link-down {LINK}: rerouted in 0 ms, 1 packet lost, 0 bytes wrong" in told
    assert told[-1] == "by-hand: PASS"


def test_a_long_run_is_played_in_larger_steps() -> None:
    run = cut()
    run.stop_ns = ns(3600)
    ticks = of_type(recording.record(run, PASSED)["messages"], "tick")
    assert len(ticks) <= recording.MOST_TICKS + 2


def test_a_page_with_a_recording_holds_every_module_and_asks_for_nothing() -> None:
    whole = page.whole({"messages": [{"type": "event", "text": "</script><script>alert(1)"}]})
    assert "</script><script>alert" not in whole
    imports = json.loads(re.findall(r'<script type="importmap">(.*?)</script>', whole)[0])["imports"]
    assert all(address.startswith("data:text/javascript;base64,") for address in imports.values())
    bare = re.compile(r'from "([^"]+)"')
    modules = [path for path in page.FOLDER.iterdir() if path.suffix == ".js"]
    assert {name for path in modules for name in bare.findall(path.read_text())} <= imports.keys()
    assert {path.stem for path in modules} == imports.keys()
    assert not re.findall(r"(?:src|href)=\"(?!data:)", whole)


def test_a_folder_without_a_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no recording"):
        recording.load(tmp_path)


def test_loads_of_links_are_those_of_the_ports_samples_until_the_next_one() -> None:
    run = cut()
    up, down = (f"{a}>{b}" for a, b in (LINK.split(":"), reversed(LINK.split(":"))))
    rate_bps = run.clos.links[LINK].rate_bps
    run.port_bytes = [(ns(1), {}), (ns(2), {up: rate_bps // 8, down: rate_bps // 16}), (ns(4), {up: rate_bps // 8})]
    ticks = {tick["t"]: tick for tick in of_type(recording.record(run, PASSED)["messages"], "tick")}
    place = 2 * list(run.clos.links).index(LINK)
    assert ticks[1900]["loads"] is None
    assert [ticks[t]["loads"][place : place + 2] for t in (2000, 3900, 4000)] == [[100, 50], [100, 50], [50, 0]]
    assert sum(ticks[4000]["loads"]) == 50
