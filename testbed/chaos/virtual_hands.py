"""Does the acts of faults on a simulated lab. What there is none of in virtual time is refused before a run starts."""

from __future__ import annotations

from testbed.chaos import denylist
from testbed.chaos.acting import ActingHands
from testbed.chaos.kinds.kind import Kind
from testbed.sim.lab import SimLab
from testbed.topology.clos import Port
from testbed.topology.errors import InputError

_PROCESSES = frozenset({"agent-restart"})  # kinds that need some


class SimHands(ActingHands[SimLab]):
    """The hands of one simulated lab; see `injector.Hands`."""

    def refuse_unable(self, kind: Kind) -> None:
        """See Hands: there are no processes."""
        if kind.name in _PROCESSES:
            what = f"{kind.name} does not exist in virtual time, where agents are no processes"
            raise InputError(what, "use mrclab run")

    def delay(self, port: Port, delay_ns: int, jitter_ns: int) -> None:
        """See ActingHands."""
        self._lab.ports.delay(port, delay_ns, jitter_ns)

    def set_tables(self, node: str, there: bool) -> None:
        """A switch's tables are programmed in no time here: they are there when its ports are."""

    def set_paused(self, host: str, paused: bool) -> None:
        """See ActingHands."""
        simulated = self._lab.hosts[self._lab.clos.nodes[host].index]
        if paused:
            simulated.pause()
        else:
            simulated.go_on()

    def set_alive(self, host: str, alive: bool) -> None:
        """Refused before; an agent here is always alive."""
        assert alive

    def set_denied(self, link: str, denied: bool) -> None:
        """See ActingHands."""
        denylist.tell(self._lab.agents, self._lab.clos, link, denied)
