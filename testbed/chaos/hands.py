"""Does the acts of faults on a lab that is up: kernel objects, settings of ports, and the processes of agents.

An agent is known by who listens on its socket, in the kernel's words (`AgentClient.open_pidfd`), never by a pid on
file: no foreign process is stopped or killed.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from typing import Any

from testbed.chaos import denylist
from testbed.chaos.kinds.acts import Act, Blank, Change, Deny, Down, Kill, Pause
from testbed.chaos.kinds.kind import Kind
from testbed.fabric import netem
from testbed.lab.agents import AgentError
from testbed.lab.repair import restart_agents
from testbed.lab.running import RunningLab
from testbed.topology.clos import Port

_GONE_WITHIN_MS = 2000
_DELAYS = ("delay_ns", "delay_jitter_ns")  # what netem does, not the port's program


def refuse_unable(kind: Kind) -> None:
    """Raises MissingError when this machine cannot have faults of a kind: a delay needs netem. Needs no lab."""
    if kind.needs_netem:
        netem.require(f"the fault {kind.name} delays packets")


class LabHands:
    """The hands of one lab; see `injector.Hands`."""

    def __init__(self, lab: RunningLab) -> None:
        self._lab = lab
        self._delays: dict[int, dict[str, int]] = {}  # ifindex -> what netem holds there, set by us

    def refuse_unable(self, kind: Kind) -> None:
        """See Hands."""
        refuse_unable(kind)

    def found(self, act: Act) -> Any:
        """See Hands: of settings their value; of everything else there is nothing to know, it is as planned."""
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
            case Blank(node):
                self._lab.tables.forget(node)
            case Pause(host):
                self._signal(host, signal.SIGSTOP)
            case Kill(host):
                with suppress(AgentError):  # dead already
                    self._signal(host, signal.SIGKILL)
            case Deny(link):
                self._tell_denied(link, True)

    def restore(self, act: Act, found: Any) -> None:
        """See Hands."""
        match act:
            case Down(port):
                self._lab.ports.bring_up(port)
            case Change(port, setting):
                self._change(port, setting, found)
            case Blank(node):
                self._lab.tables.program(node)
            case Pause(host):
                with suppress(AgentError):  # it died meanwhile
                    self._signal(host, signal.SIGCONT)
            case Kill(host):
                restart_agents(self._lab.name, [host])
            case Deny(link):
                self._tell_denied(link, False)

    def _change(self, port: Port, setting: str, value: Any) -> None:
        if setting not in _DELAYS:
            self._lab.ports.change(port, **{setting: value})
            return
        now = self._delays.setdefault(port.ifindex, dict.fromkeys(_DELAYS, 0))
        now[setting] = value
        netem.set_delay(self._lab.kernel, self._lab.plan, port, now["delay_ns"], now["delay_jitter_ns"])

    def _tell_denied(self, link: str, denied: bool) -> None:
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
