"""SIGINT, SIGTERM and SIGHUP as a wish to stop that a loop looks at, so that what it holds is put back in order."""

from __future__ import annotations

import os
import select
import signal
import time
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptible:
    """While it is entered, these signals set `signal_name` and end a `wait_until` at once. For the main thread."""

    def __init__(self) -> None:
        self.signal_name = ""
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruptible:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    @property
    def words(self) -> str:
        """Why it ends, once one of them came; empty before."""
        return f"ended early by {self.signal_name}" if self.signal_name else ""

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    def wait_until(self, t_ns: int) -> None:
        """Sleep until CLOCK_MONOTONIC reaches `t_ns`, or a signal has come."""
        while not self.signal_name:
            left_ns = t_ns - time.monotonic_ns()
            if left_ns <= 0 or select.select([self._reader], [], [], left_ns / 1e9)[0]:
                return

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.signal_name:
            self.signal_name = signal.Signals(number).name
            os.write(self._writer, b".")
