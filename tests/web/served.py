"""How tests speak to the server and look at the page."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import ElementNotInteractableException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

LAB = "wb-web"
LINK = "p0t0-0:p0t1-1"
LOAD_PERCENT = 20  # of line rate: enough to see, and little work for a shared machine

# Without these Chromium looks for its makers' servers, or cannot run as root.
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def wire(name: str = LINK) -> str:
    """The selector of a link in the drawing."""
    return f'g.link[data-name="{name}"]'


def wait_until(holds: Callable[[], Any], within_s: float = 20.0, what: str = "") -> Any:
    """Poll until it holds; its value."""
    deadline = time.monotonic() + within_s
    while not (value := holds()):
        assert time.monotonic() < deadline, f"did not happen within {within_s} s: {what or holds}"
        time.sleep(0.02)
    return value


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    code: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Server:
    """`mrclab web`, running. `address` is what it printed: it has the token."""

    process: subprocess.Popen[str]
    address: str

    @property
    def place(self) -> str:
        """host:port."""
        return urlsplit(self.address).netloc

    @property
    def port(self) -> str:
        """As an option of the command line."""
        return self.place.rpartition(":")[2]

    @property
    def token(self) -> str:
        return self.address.partition("#token=")[2]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request, exactly as given: `path` is not tidied up. Header names with _ for -."""
        connection = http.client.HTTPConnection(self.place, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, None if body is None else json.dumps(body), named)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    def post(self, path: str, body: Any) -> Answer:
        """A change, with the token."""
        return self.ask("POST", path, body, x_mrclab_token=self.token)


class Browser:
    """A window on the page."""

    def __init__(self, profile: Path, width: int, height: int, scheme: str) -> None:
        options = webdriver.ChromeOptions()
        for flag in (*_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})  # type: ignore[arg-type]
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def one(self, selector: str) -> WebElement:
        """The first element, as soon as it is there."""
        found = wait_until(lambda: self.driver.find_elements(By.CSS_SELECTOR, selector), what=selector)
        assert isinstance(found[0], WebElement)
        return found[0]

    def classes(self, name: str = LINK) -> set[str]:
        """How a link is drawn; empty while it is not. Read in one step, since the page changes all the time."""
        script = "return document.querySelector(arguments[0])?.getAttribute('class') ?? ''"
        return set(self.driver.execute_script(script, wire(name)).split())

    def text(self, selector: str) -> str:
        """All the words in an element, read in one step likewise."""
        words = self.driver.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)
        assert isinstance(words, str)
        return words

    def press(self, selector: str) -> None:
        """Click with the mouse."""
        self._do(lambda: self.one(selector).click())

    def enter(self, selector: str) -> None:
        """Focus, and press Enter."""
        self._do(lambda: self.one(selector).send_keys("\n"))

    def _do(self, what: Callable[[], None]) -> None:
        """The page makes parts anew when something has happened: what was found just before may be gone."""

        def done() -> bool:
            try:
                what()
            except (StaleElementReferenceException, ElementNotInteractableException):
                return False
            return True

        wait_until(done)

    def press_link(self, name: str = LINK) -> None:
        """Click on the wire of a link, a quarter of the way up, where no other crosses it."""
        script = """
            const line = document.querySelector(`g.link[data-name="${arguments[0]}"] .hit`);
            const at = line.getPointAtLength(line.getTotalLength() / 4).matrixTransform(line.getScreenCTM());
            return [at.x, at.y];"""
        x, y = self.driver.execute_script(script, name)
        actions = webdriver.ActionChains(self.driver)
        actions.w3c_actions.pointer_action.move_to_location(int(x), int(y))
        actions.click().perform()

    def goodput_kbps(self) -> float:
        """The number at the top of the page."""
        words = self.text("#numbers div dd").split()
        scale = {"kb/s": 1.0, "Mb/s": 1e3, "Gb/s": 1e6}
        return float(words[0]) * scale[words[1]] if words else 0.0

    def complaints(self) -> list[str]:
        """What the console has said."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def places_asked(self) -> set[str]:
        """host:port of every request that was made for a page since the browser was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]  # type: ignore[no-untyped-call]
        urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return {urlsplit(url).netloc for url in urls if urlsplit(url).scheme in ("http", "https", "ws", "wss")}
