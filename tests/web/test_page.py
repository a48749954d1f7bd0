"""The page in a real browser on a real lab under traffic: what it shows, what a click does, and how it recovers.

h0, h1 -- T0-0 -- T1-0, T1-1 -- T0-1 -- h2, h3      in each of two planes
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from served import LAB, LINK, Browser, Server, wait_until, wire

from testbed.chaos import by_hand
from testbed.lab import lifecycle
from testbed.lab.follow import Follower
from testbed.lab.running import RunningLab
from testbed.topology.labfile import load_lab

pytestmark = [pytest.mark.kernel]

AGAIN = 20  # times that a cut is timed
SHOWN_WITHIN_MS = 250  # in the median


@pytest.fixture(autouse=True)
def mended(lab: RunningLab) -> Iterator[None]:
    """No test leaves a fault in the lab."""
    yield
    by_hand.clear(lab)


def test_a_link_is_cut_and_mended_with_the_mouse_and_the_page_tells_all_of_it(
    lab: RunningLab, live: Server, page: Browser
) -> None:
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
    assert page.places_asked() == {live.place}


def test_self_probes_are_switched_on_and_what_they_find_is_shown(lab: RunningLab, page: Browser) -> None:
    wait_until(lambda: "nobody probes" in page.text("#health"), what="the section is there")
    page.press("#probe")
    wait_until(lambda: "24 ok" in page.text("#health"), what="every link and switch has been probed")
    by_hand.put(lab, "black-hole", LINK)
    wait_until(lambda: "accused" in page.classes(), what="the link is marked")
    row = f"[data-key='found {LINK}']"
    wait_until(lambda: "down" in page.text(f"{row} + span"), what="it is in the list")
    wait_until(lambda: f"{LINK} ok -> down" in page.text("#events"), what="it is told")
    page.press(row)
    wait_until(lambda: "probes: down" in page.text("#panel"), what="it is selected, with what the probes say")
    by_hand.clear(lab)
    wait_until(lambda: "accused" not in page.classes(), what="it is found mended")
    page.press("#probe")
    wait_until(lambda: "nobody probes" in page.text("#health"), what="probing has ended")
    assert page.complaints() == []


def test_everything_can_be_done_with_the_keyboard(lab: RunningLab, page: Browser) -> None:
    page.enter(wire())
    wait_until(lambda: page.text("#panel b") == LINK)
    page.enter("button.cut")
    wait_until(lambda: "down" in page.classes())
    page.enter("#clear-all")
    wait_until(lambda: "down" not in page.classes())
    find = page.one("input[list]")
    find.send_keys("h1\n")
    wait_until(lambda: page.text("#panel b") == "h1")
    names = "return [...document.querySelectorAll('.link.lit')].map(one => one.dataset.name)"
    lit = set(page.driver.execute_script(names))
    assert {"h1:p0t0-0", "h1:p1t0-0", "h3:p0t0-1", "h3:p1t0-1"} <= lit
    assert not {link for link in lit if link.startswith("h0:")}


def test_two_browsers_and_a_reload_see_the_same(
    lab: RunningLab, live: Server, page: Browser, browse: Callable[..., Browser]
) -> None:
    other = browse(f"http://{live.place}/")  # without the token
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


@pytest.mark.full
def test_a_cut_is_on_the_page_within_a_quarter_of_a_second_in_the_median(lab: RunningLab, page: Browser) -> None:
    """Against the agents' own time of the event; Date.now() and CLOCK_MONOTONIC are of one machine."""
    watch = """
        window.shown = [];
        new MutationObserver(() => {
          const told = document.querySelector("#events .path")?.textContent ?? "";
          if (told !== window.told && told.includes("retired")) window.shown.push(Date.now());
          window.told = told;
        }).observe(document.querySelector("#events"), {childList: true});"""
    page.driver.execute_script(watch)
    follower = Follower(lab.agents())
    follower.skip_to_now()
    late_ms = []
    for _ in range(AGAIN):
        list(follower.read())
        page.driver.execute_script("window.shown = []")
        wall_to_monotonic_ns = time.time_ns() - time.monotonic_ns()
        page.enter(wire())
        page.enter("button.cut")
        shown_ms = wait_until(lambda: page.driver.execute_script("return window.shown[0]"))
        events = [event for _, _, events in follower.read() for event in events]
        first_ns = min(event["now_ns"] for event in events if event["kind"] == "EvChanged")
        late_ms.append(shown_ms - (first_ns + wall_to_monotonic_ns) / 1e6)
        page.enter("#clear-all")
        wait_until(lambda: "down" not in page.classes())
        wait_until(lambda: "p0t1-1 back in use" in page.text("#events li.path"), what="every path is back in use")
    assert statistics.median(late_ms) < SHOWN_WITHIN_MS, late_ms


@pytest.mark.full
def test_ten_clients_that_do_not_read_cost_no_memory(live: Server, page: Browser) -> None:
    sockets = []
    for _ in range(10):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        host, port = live.place.split(":")
        connection.connect((host, int(port)))
        connection.sendall(f"GET /events HTTP/1.1\r\nHost: {live.place}\r\n\r\n".encode())
        sockets.append(connection)
    resident = [_resident_kb(live)]
    for _ in range(6):
        until = time.monotonic() + 5
        wait_until(lambda until=until: time.monotonic() > until)  # type: ignore[misc]
        resident.append(_resident_kb(live))
    assert max(resident) - resident[0] < 8 << 10, resident
    for connection in sockets:
        connection.close()


def _resident_kb(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


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
