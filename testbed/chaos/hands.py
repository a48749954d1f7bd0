"""Does the acts of faults on a lab that is up: kernel objects, settings of ports, and the processes of agents.

An agent is known by who listens on its socket, in the kernel's words (`AgentClient.open_pidfd`), never by a pid on
file: no foreign process is stopped or killed.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from testbed.chaos import denylist
from testbed.chaos.acting import ActingHands
from testbed.chaos.kinds.kind import Kind
from testbed.fabric import netem
from testbed.lab.agents import AgentError
from testbed.lab.repair import restart_agents
from testbed.lab.running import RunningLab
from testbed.topology.clos import Port

_GONE_WITHIN_MS = 2000


def refuse_unable(kind: Kind) -> None:
    """Raises MissingError when this machine cannot have faults of a kind: a delay needs netem. Needs no lab."""
    if kind.needs_netem:
        netem.require(f"the fault {kind.name} delays packets")


class LabHands(ActingHands[RunningLab]):
    """The hands of one lab; see `injector.Hands`."""

    def refuse_unable(self, kind: Kind) -> None:
        """See Hands."""
        refuse_unable(kind)

    def delay(self, port: Port, delay_ns: int, jitter_ns: int) -> None:
        """See ActingHands."""
        netem.set_delay(self._lab.kernel, self._lab.plan, port, delay_ns, jitter_ns)

    def set_tables(self, node: str, there: bool) -> None:
        """See ActingHands."""
        if there:
            self._lab.tables.program(node)
        else:
            self._lab.tables.forget(node)

    def set_paused(self, host: str, paused: bool) -> None:
        """See ActingHands. One that died meanwhile cannot go on, and that is no error."""
        if paused:
            self._signal(host, signal.SIGSTOP)
            return
        with suppress(AgentError):
            self._signal(host, signal.SIGCONT)

    def set_alive(self, host: str, alive: bool) -> None:
        """See ActingHands."""
        if alive:
            restart_agents(self._lab.name, [host])
            return
        with suppress(AgentError):  # dead already
            self._signal(host, signal.SIGKILL)

    def set_denied(self, link: str, denied: bool) -> None:
        """See ActingHands."""
        with self._lab.agents() as agents:
            denylist.tell(agents, self._lab.clos, link, denied)

    def _signal(self, host: str, number: signal.Signals) -> None:
        """Send a signal to a host's agent, and see it go after SIGKILL. Raises AgentError when there is none."""
        client = self._lab.agent(host)
        try:
            pidfd = client.open_pidfd()
        except ProcessLookupError:
            raise AgentError(f"agent {host} has just ended") from None
        finally:
            client.close()
        try:
            signal.pidfd_send_signal(pidfd, number)
            if number == signal.SIGKILL:
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                poll.poll(_GONE_WITHIN_MS)
        finally:
            os.close(pidfd)
