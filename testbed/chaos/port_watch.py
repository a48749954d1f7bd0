"""Reads the ports' own counters while a run goes on, and hands each stretch of time to the recorder."""

from __future__ import annotations

from testbed.measure.ports import PortSource
from testbed.measure.recorder import Recorder


class PortWatch:
    """For one run. Without a source (a stage whose ports do not count) it sees nothing."""

    def __init__(self, source: PortSource | None, recorder: Recorder) -> None:
        self._source = source
        self._recorder = recorder
        self._before = source() if source else {}

    def look(self, t_ns: int) -> None:
        """Take in what the ports counted since the last look, or since the start."""
        if self._source is None:
            return
        now = self._source()
        counted = {name: one.since(self._before[name]) for name, one in now.items()}
        self._before = now
        self._recorder.ports(t_ns, {name: one for name, one in counted.items() if one.told()})
