"""A lab, the server as a person starts it, and a real browser: headless Chromium, driven through chromedriver."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from served import LAB, LOAD_PERCENT, Browser, Server, wait_until

from testbed.lab import lifecycle
from testbed.lab.running import RunningLab, open_lab
from testbed.topology.labfile import load_lab


@pytest.fixture(scope="module")
def lab_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab of the size of `tiny`."""
    path = tmp_path_factory.mktemp("labs") / f"{LAB}.yaml"
    path.write_text("planes: 2\nt0_groups: 2\nhosts_per_t0: 2\nt1s_per_plane: 2\n")
    return path


@pytest.fixture(scope="module")
def lab(lab_file: Path) -> Iterator[RunningLab]:
    """That lab, up."""
    try:
        lifecycle.up(load_lab(lab_file), lab_file)
        with open_lab(LAB) as running:
            yield running
    finally:
        lifecycle.down(LAB)


@contextlib.contextmanager
def _servers(folder: Path) -> Iterator[Callable[..., Server]]:
    servers = []

    def start(*arguments: str) -> Server:
        command = [sys.executable, "-m", "testbed.cli", "web", "--out", str(folder), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        servers.append(process)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, process.communicate()[1]
        return Server(process, address)

    try:
        yield start
    finally:
        for process in servers:
            process.send_signal(signal.SIGINT)
        for process in servers:
            process.communicate(timeout=30)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts `mrclab web` with arguments of its own; ended after the test."""
    with _servers(tmp_path / "runs") as start:
        yield start


@pytest.fixture(scope="module")
def live(lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The live page of the lab, for all tests of a module."""
    with _servers(tmp_path_factory.mktemp("runs")) as start:
        server = start(lab.name, "--port", "0")
        wait_until(lambda: "mrclab_lab_up 1" in server.ask("GET", "/metrics").text)
        yield server


@contextlib.contextmanager
def _browsers(folder: Path) -> Iterator[Callable[..., Browser]]:
    browsers: list[Browser] = []

    def open_one(address: str, width: int = 1280, height: int = 720, scheme: str = "light") -> Browser:
        browser = Browser(folder / f"profile{len(browsers)}", width, height, scheme)
        browsers.append(browser)
        browser.driver.get(address)
        return browser

    try:
        yield open_one
    finally:
        for browser in browsers:
            browser.driver.quit()


@pytest.fixture
def browse(tmp_path: Path) -> Iterator[Callable[..., Browser]]:
    """Opens browsers, each with a profile of its own; closed after the test."""
    with _browsers(tmp_path) as open_one:
        yield open_one


@pytest.fixture(scope="module")
def page(live: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A window on that page, with traffic that was started there, for all tests of a module."""
    with _browsers(tmp_path_factory.mktemp("browser")) as open_one:
        page = open_one(live.address)
        load = page.one("input[type=number]")
        load.clear()
        load.send_keys(str(LOAD_PERCENT))
        wait_until(lambda: page.one("#start-traffic").is_enabled())
        page.press("#start-traffic")
        wait_until(lambda: page.goodput_kbps() > 1000, 60, "goodput")
        yield page


@pytest.fixture(scope="session", autouse=True)
def has_browser() -> None:
    """These tests need Chromium; `./mrclab test` installs it."""
    missing = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    if missing:
        pytest.fail(f"missing: {', '.join(missing)}; run: apt-get install chromium chromium-driver")
