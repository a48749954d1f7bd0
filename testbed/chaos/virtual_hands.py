"""Does the acts of faults on a simulated lab. What there is none of in virtual time is refused before a run starts."""

from __future__ import annotations

from typing import Any

from testbed.chaos import denylist
from testbed.chaos.kinds.acts import Act, Change, Deny, Down, Kill, Pause
from testbed.chaos.kinds.kind import Kind
from testbed.sim.lab import SimLab
from testbed.topology.clos import Port
from testbed.topology.errors import InputError

_DELAYS = ("delay_ns", "delay_jitter_ns")  # what the cable does, not the port
_PROCESSES = frozenset({"agent-restart"})  # kinds that need some


class SimHands:
    """See `injector.Hands`. A switch's tables are programmed in no time here, so that `Blank` has nothing to do."""

    def __init__(self, lab: SimLab) -> None:
        self._lab = lab
        self._delays: dict[Port, dict[str, int]] = {}

    def refuse_unable(self, kind: Kind) -> None:
        """See Hands: there are no processes."""
        if kind.name in _PROCESSES:
            what = f"{kind.name} does not exist in virtual time, where agents are no processes"
            raise InputError(what, "use mrclab run")

    def found(self, act: Act) -> Any:
        """See Hands."""
        match act:
            case Change(port, setting) if setting in _DELAYS:
                return 0
            case Change(port, setting):
                return getattr(self._lab.ports.settings(port), setting)
        return None

    def do(self, act: Act) -> None:
        """See Hands."""
        match act:
            case Down(port):
                self._lab.ports.take_down(port)
            case Change(port, setting, value):
                self._change(port, setting, value)
            case Pause(host):
                self._lab.hosts[self._lab.clos.nodes[host].index].pause()
            case Deny(link):
                denylist.tell(self._lab.agents, self._lab.clos, link, True)
            case Kill():
                raise AssertionError("refused before")

    def restore(self, act: Act, found: Any) -> None:
        """See Hands."""
        match act:
            case Down(port):
                self._lab.ports.bring_up(port)
            case Change(port, setting):
                self._change(port, setting, found)
            case Pause(host):
                self._lab.hosts[self._lab.clos.nodes[host].index].go_on()
            case Deny(link):
                denylist.tell(self._lab.agents, self._lab.clos, link, False)

    def _change(self, port: Port, setting: str, value: Any) -> None:
        if setting not in _DELAYS:
            self._lab.ports.change(port, **{setting: value})
            return
        now = self._delays.setdefault(port, dict.fromkeys(_DELAYS, 0))
        now[setting] = value
        self._lab.ports.delay(port, now["delay_ns"], now["delay_jitter_ns"])
