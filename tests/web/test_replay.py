"""A recorded run in the browser: from its folder and inside report.html, without a lab, with pause and scrubbing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from served import Browser, Server, wait_until

from testbed.measure.judgement import Judgement
from testbed.measure.record import Run
from testbed.report import html, recording
from tests.unit.measure import handmade
from tests.unit.measure.handmade import LINK

PASSED = Judgement("pass")


@pytest.fixture(scope="module")
def run() -> Run:
    """Eight seconds, in which a link is cut from 3 s to 5 s."""
    return handmade.cut(until_s=5)


def at(page: Browser, ms: int) -> None:
    """Pause, and scrub to a time."""
    if page.text("#play") == "pause":
        page.press("#play")
    move = "const s = document.querySelector('#position'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))"
    page.driver.execute_script(move, ms)


def look_through(page: Browser) -> None:
    """Scrub forwards and backwards: the page shows each time as it was."""
    at(page, 4000)
    wait_until(lambda: "down" in page.classes(LINK), what="the link is down at 4 s")
    wait_until(lambda: page.goodput_kbps() > 100_000, what="traffic flows at 4 s")
    assert "rerouted in" not in page.text("#events")
    at(page, 4700)
    wait_until(lambda: f"{LINK}: rerouted in" in page.text("#events"), what="by then it is judged")
    at(page, 2000)
    wait_until(lambda: page.classes(LINK) == {"link"}, what="the link is up at 2 s")
    wait_until(lambda: page.text("#events") == "", what="nothing has happened by then")
    at(page, 8000)
    wait_until(lambda: "by-hand: PASS" in page.text("#events"), what="the verdict at the end")
    assert not page.driver.find_elements(By.CSS_SELECTOR, "button.cut, #start-traffic")
    assert page.complaints() == []


def test_from_the_folder_of_a_run(
    run: Run, tmp_path: Path, serve: Callable[..., Server], browse: Callable[..., Browser]
) -> None:
    (tmp_path / recording.FILE_NAME).write_text(json.dumps(recording.record(run, PASSED)))
    server = serve(str(tmp_path), "--port", "0")
    page = browse(server.address)
    wait_until(lambda: page.text("#status") == "replay")
    look_through(page)
    assert page.places_asked() == {server.place}


def test_inside_the_report_straight_from_the_disk(run: Run, tmp_path: Path, browse: Callable[..., Browser]) -> None:
    report = tmp_path / "report.html"
    report.write_text(html.render(run, PASSED, recording.record(run, PASSED)))
    page = browse(report.as_uri())
    frame = page.one("iframe")
    page.driver.execute_script("arguments[0].scrollIntoView()", frame)  # a browser draws no frame that nobody sees
    page.driver.switch_to.frame(frame)
    wait_until(lambda: page.text("#status") == "replay")
    before = page.text("#time")
    wait_until(lambda: page.text("#time") != before, what="it plays by itself")
    assert re.search(r"of 8\.0 s", page.text("#time"))
    look_through(page)
    assert page.places_asked() == set()
