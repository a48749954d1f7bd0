"""The agents of a simulated lab, asked like those of a real one: the same operations, answered in virtual time.

`agents.operations` is the table of what can be asked. An answer that takes time (a probe's) lets virtual time pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.agent import Agent
from agents.operations import perform
from agents.request import RequestError
from testbed.sim.events import EventList
from testbed.sim.host import SimHost
from testbed.topology.errors import MrclabError

Fields = dict[str, Any]
_NO_PROCESS = {"cpu_ns": 0, "turns": 0, "late_timers": 0, "worst_late_ns": 0, "socket_drops": 0}


class RefusedError(MrclabError):
    """An agent cannot do what it was asked for; the text is its own."""


class SimulatedHost:
    """An agent's host, as the operations see it (`agents.operations.Host`)."""

    def __init__(self, name: str, agent: Agent, host: SimHost, events: EventList) -> None:
        self.name = name
        self.agent = agent
        self.host = host
        self._events = events

    def now_ns(self) -> int:
        """Virtual time."""
        return self._events.now

    def identity(self) -> Fields:
        """No process; its ports are called as on the lab."""
        up = self.agent.nic.ports_up
        return {
            "pid": None,
            "ports": [
                {"ifname": f"eth{port}", "up": bool(up >> port & 1)} for port in range(self.agent.nic.config.planes)
            ],
        }

    def totals(self) -> Fields:
        """Nothing is late here, and no socket drops."""
        return {**_NO_PROCESS, "ports": [{"up": port["up"]} for port in self.identity()["ports"]]}

    def stop(self) -> None:
        """Raises RequestError: there is no process to end."""
        raise RequestError("a simulated agent has no process to end")


class _Answer:
    """Where an operation's answer goes."""

    def __init__(self) -> None:
        self.fields: Fields | None = None

    def ok(self, **fields: Any) -> None:
        """Take the first answer."""
        if self.fields is None:
            self.fields = fields


class SimAgents:
    """The agents of all hosts."""

    def __init__(self, hosts: Mapping[str, SimulatedHost], events: EventList) -> None:
        self._hosts = dict(hosts)
        self._events = events

    @property
    def hosts(self) -> list[str]:
        """The names of the hosts."""
        return list(self._hosts)

    def call(self, op: str, **fields: Any) -> dict[str, Fields]:
        """Ask all agents the same; the answers by host. Raises RefusedError when one says no."""
        return self.call_each(op, dict.fromkeys(self._hosts, fields))

    def ask_each(
        self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]], *, within_s: float = 0
    ) -> tuple[dict[str, Fields], dict[str, MrclabError]]:
        """The same as from a real lab's agents; here all answer. Raises RefusedError when one says no."""
        return self.call_each(op, fields_by_host), {}

    def call_each(self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]]) -> dict[str, Fields]:
        """Ask the hosts named each with fields of its own; the answers by host. Raises RefusedError."""
        answers = {}
        for name, fields in fields_by_host.items():
            host = self._hosts[name]
            answers[name] = answer = _Answer()
            try:
                perform(host, {"op": op, **fields}, answer)
            except RequestError as error:
                raise RefusedError(f"agent {name}: {error}") from error
            host.host.settle()
        while any(answer.fields is None for answer in answers.values()) and self._events.do_next_event():
            pass
        return {name: answer.fields or {} for name, answer in answers.items()}
