"""The thread that a lab is followed in: waits for the lab, follows it, notices its end, and does what it is asked for.

A lab is for one thread (`RunningLab`), so whatever touches it runs here; the server hands functions in and awaits what
they return. What there is to tell goes out through `publish`, which has to be quick and safe to call from here.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from testbed.lab import state
from testbed.lab.running import open_lab
from testbed.measure.view import TICK_NS, Message
from testbed.topology.errors import InputError, MrclabError
from testbed.web.following import Following

_LOG = logging.getLogger(__name__)

IDLE_NS = 1_000_000_000  # between two looks when nobody watches, and between two looks for a lab
_PORTS_PER_TICK = 512  # a lab with more is looked at less often: its picture costs more than it is worth

T = TypeVar("T")


class LiveLab(threading.Thread):
    """Follows the lab `name`, or the one that is up. `watched` says whether anybody looks on."""

    def __init__(self, name: str | None, publish: Callable[[list[Message]], None]) -> None:
        super().__init__(name="lab", daemon=True)
        self.watched = threading.Event()
        self._name = name
        self._publish = publish
        self._asked: queue.SimpleQueue[Callable[[Following | None], None]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._following: Following | None = None
        self._stamp = (0, 0)
        self._state = ""

    def ask(self, what: Callable[[Following], T]) -> Future[T]:
        """Have `what` done with the lab, soon; the picture is brought up to date right after it.

        The future raises InputError when no lab is up, and whatever `what` raises.
        """
        future: Future[T] = Future()

        def do(following: Following | None) -> None:
            try:
                if following is None:
                    raise InputError("no lab is up", "start one with: mrclab up")
                future.set_result(what(following))
            except BaseException as error:
                future.set_exception(error)

        self._asked.put(do)
        return future

    def stop(self) -> None:
        """End it, and let go of the lab."""
        self._ended.set()
        self._asked.put(lambda following: None)
        self.join()

    def run(self) -> None:
        """The loop; see `threading.Thread`."""
        due_ns = 0
        while not self._ended.is_set():
            self._do_what_is_asked(due_ns)
            started_ns = time.monotonic_ns()
            self._look()
            due_ns = started_ns + self._pause_ns()
        self._let_go("the server ends")

    def _do_what_is_asked(self, until_ns: int) -> None:
        """Wait for the next look; what is asked for meanwhile is done at once, and ends the wait."""
        try:
            do = self._asked.get(timeout=max(0.0, (until_ns - time.monotonic_ns()) / 1e9))
            do(self._following)
            while True:
                self._asked.get_nowait()(self._following)
        except queue.Empty:
            return

    def _pause_ns(self) -> int:
        if self._following is None or not self.watched.is_set():
            return IDLE_NS if self._following is None else TICK_NS * 5
        ports = 2 * len(self._following.clos.links)
        return TICK_NS * max(1, -(-ports // _PORTS_PER_TICK))

    def _look(self) -> None:
        try:
            if self._following is not None and self._lab_stamp(self._following.lab.name) != self._stamp:
                self._let_go(f"lab {self._following.lab.name} has changed or gone")
            if self._following is None:
                self._follow()
            if self._following is not None:
                self._publish(self._following.look())
        except MrclabError as error:
            self._let_go(str(error))
        except Exception as error:  # whatever a lab that goes down brings about: the page says so, and looks again
            _LOG.exception("looking at the lab")
            self._let_go(f"the lab could not be read: {type(error).__name__}: {error}")

    def _follow(self) -> None:
        name = self._name or next(iter(state.names()), None)
        if name is None:
            self._say("waiting", "no lab is up; waiting for: mrclab up")
            return
        stamp = self._lab_stamp(name)
        recorded = state.load(name)
        if recorded is None or recorded.phase != "up":
            self._say("waiting", f"lab {name} is not up; waiting for it")
            return
        self._following = Following(open_lab(name))
        self._stamp = stamp
        self._publish([self._following.scene()])
        self._say("up", f"lab {name} is up")

    def _let_go(self, why: str) -> None:
        if self._following is not None:
            self._following.close()
            self._following = None
        self._say("lost", why)

    def _say(self, now: str, text: str) -> None:
        if text != self._state:
            self._state = text
            self._publish([{"type": "status", "state": now, "text": text}])

    def _lab_stamp(self, name: str) -> tuple[int, int]:
        try:
            found = (state.directory(name) / "state.json").stat()
        except FileNotFoundError:
            return (0, 0)
        return found.st_ino, found.st_mtime_ns
