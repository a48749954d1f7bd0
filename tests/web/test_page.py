"""The page in a real browser on a real lab under traffic: what it shows, what a click does, and how it recovers.

h0, h1 -- T0-0 -- T1-0, T1-1 -- T0-1 -- h2, h3      in each of two planes
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from served import LAB, LINK, Browser, Server, wait_until

from testbed.chaos import by_hand
from testbed.lab import lifecycle
from testbed.lab.running import RunningLab
from testbed.topology.labfile import load_lab

pytestmark = [pytest.mark.kernel]

LOAD_PERCENT = 20


@pytest.fixture
def page(lab: RunningLab, serve: Callable[..., Server], browse: Callable[..., Browser]) -> Browser:
    """The live page of the lab with traffic, which was started on it; `page.server` is behind it."""
    server = serve(LAB, "--port", "0")
    page = browse(server.address)
    page.server = server  # type: ignore[attr-defined]
    load = page.one("input[type=number]")
    load.clear()
    load.send_keys(str(LOAD_PERCENT))
    wait_until(lambda: page.one("#start-traffic").is_enabled())
    page.press("#start-traffic")
    wait_until(lambda: page.goodput_kbps() > 1000, 40, "goodput")
    return page


def test_a_link_is_cut_and_mended_with_the_mouse_and_the_page_tells_all_of_it(lab: RunningLab, page: Browser) -> None:
    before = page.goodput_kbps()
    assert "down" not in page.classes()
    page.press_link()
    wait_until(lambda: page.text("#panel b") == LINK, what="the link is selected")
    page.press("button.cut")
    wait_until(lambda: "down" in page.classes(), what="the link is drawn as down")
    assert [fault.target for fault in by_hand.active(lab)] == [LINK]
    wait_until(lambda: f"LINK CUT   {LINK}" in page.text("#events"), what="the cut is told")
    wait_until(lambda: "p0t1-1 retired" in page.text("#events"), what="the retired path is told")
    wait_until(lambda: "bad" in page.text("#evmap"), what="the EV map shows it")
    wait_until(lambda: f"{LINK}: rerouted in" in page.text("#events"), what="what it cost is told")
    assert "0 bytes wrong" in page.text("#events .verdict")
    wait_until(lambda: page.goodput_kbps() > 0.6 * before, what="traffic goes on")
    page.press("button.undo")
    wait_until(lambda: "down" not in page.classes(), what="the link is drawn as up")
    wait_until(lambda: "none" in page.text("#panel"), what="no fault is in force")
    assert by_hand.active(lab) == []
    wait_until(lambda: "p0t1-1 back in use" in page.text("#events"), 30, "its path is back")
    assert page.complaints() == []
    assert page.places_asked() == {page.server.place}  # type: ignore[attr-defined]


def test_everything_can_be_done_with_the_keyboard(lab: RunningLab, page: Browser) -> None:
    page.link().send_keys("\n")
    wait_until(lambda: page.text("#panel b") == LINK)
    page.one("button.cut").send_keys("\n")
    wait_until(lambda: "down" in page.classes())
    page.one("#clear-all").send_keys("\n")
    wait_until(lambda: "down" not in page.classes())
    find = page.one("input[list]")
    find.send_keys("h1\n")
    wait_until(lambda: page.text("#panel b") == "h1")
    names = "return [...document.querySelectorAll('.link.lit')].map(one => one.dataset.name)"
    lit = set(page.driver.execute_script(names))
    assert {"h1:p0t0-0", "h1:p1t0-0", "h3:p0t0-1", "h3:p1t0-1"} <= lit
    assert not {link for link in lit if link.startswith("h0:")}


def test_two_browsers_and_a_reload_see_the_same(lab: RunningLab, page: Browser, browse: Callable[..., Browser]) -> None:
    server: Server = page.server  # type: ignore[attr-defined]
    other = browse(f"http://{server.place}/")  # without the token
    wait_until(lambda: other.goodput_kbps() > 1000)
    by_hand.put(lab, "link-down", LINK)  # in a terminal
    for one in (page, other):
        wait_until(lambda one=one: "down" in one.classes())  # type: ignore[misc]
    page.driver.refresh()
    wait_until(lambda: "down" in page.classes())
    wait_until(lambda: f"LINK CUT   {LINK}" in page.text("#events"), what="what was before the reload is there")
    other.press_link()
    other.press("button.undo")
    wait_until(lambda: "needs the token" in other.text("#panel .error"))
    assert len(by_hand.active(lab)) == 1
    page.press("#clear-all")
    for one in (page, other):
        wait_until(lambda one=one: "down" not in one.classes())  # type: ignore[misc]


def test_the_server_is_killed_and_comes_back_and_so_does_the_page(
    lab: RunningLab, serve: Callable[..., Server], browse: Callable[..., Browser]
) -> None:
    server = serve(LAB, "--port", "0")
    page = browse(server.address)
    wait_until(lambda: "is up" in page.text("#status"))
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    wait_until(lambda: "trying again" in page.text("#status"))
    serve(LAB, "--port", server.port)
    wait_until(lambda: "is up" in page.text("#status"))


def test_a_lab_goes_down_and_comes_up_and_the_page_says_so_and_shows_it_again(
    lab_file: Path, serve: Callable[..., Server], browse: Callable[..., Browser]
) -> None:
    spec = load_lab(lab_file).model_copy(update={"name": "wb-gone"})
    try:
        page = browse(serve("wb-gone", "--port", "0").address)
        wait_until(lambda: "waiting" in page.text("#status"))
        lifecycle.up(spec, lab_file)
        wait_until(lambda: "wb-gone is up" in page.text("#status"))
        wait_until(lambda: page.classes() == {"link"}, what="the lab is drawn")
        lifecycle.down("wb-gone")
        wait_until(lambda: "waiting" in page.text("#status"), what="the page says that the lab is gone")
        lifecycle.up(spec, lab_file)
        wait_until(lambda: "wb-gone is up" in page.text("#status"))
    finally:
        lifecycle.down("wb-gone")
