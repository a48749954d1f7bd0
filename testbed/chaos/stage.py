"""Where a scenario is played: what the runner needs of a lab, be it real (`kernel`) or in virtual time (`virtual`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from testbed.chaos.injector import Injector
from testbed.chaos.journal import Journal
from testbed.measure.machine import Reading
from testbed.topology.clos import Clos

Answers = dict[str, dict[str, Any]]  # by host


class Agents(Protocol):
    """The agents of all hosts, asked side by side. What can be asked is the table in `agents.operations`."""

    @property
    def hosts(self) -> list[str]:
        """Their names."""

    def call(self, op: str, **fields: Any) -> Answers:
        """Ask all the same. Raises MrclabError when one does not answer, or says no."""

    def call_each(self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]]) -> Answers:
        """Ask the hosts named, each with fields of its own; errors as with `call`."""


def ask(agents: Agents, op: str, requests: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The answers in the order of the requests (host, fields); each host answers its own one after the other."""
    answers: list[dict[str, Any]] = [{} for _ in requests]
    waiting = list(enumerate(requests))
    while waiting:
        batch: dict[str, tuple[int, dict[str, Any]]] = {}
        later = []
        for number, (host, fields) in waiting:
            if host in batch:
                later.append((number, (host, fields)))
            else:
                batch[host] = (number, fields)
        replies = agents.call_each(op, {host: fields for host, (_, fields) in batch.items()})
        for host, (number, _) in batch.items():
            answers[number] = replies[host]
        waiting = later
    return answers


class Stage(Protocol):
    """A lab that is up, its faults, and the time that passes there (ns).

    `speedup` is how much faster than the lab's its time runs: everything in the scenario and the lab file has been
    divided by it already, and what the measuring takes for granted about a lab is divided by it too. In `virtual` time
    no machine takes part.
    """

    @property
    def clos(self) -> Clos: ...
    @property
    def agents(self) -> Agents: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def injector(self) -> Injector: ...
    @property
    def speedup(self) -> float: ...
    @property
    def virtual(self) -> bool: ...
    @property
    def lead_ns(self) -> int:
        """How much sooner than it is due an act has to be begun: preparing it takes time where a machine takes part."""

    def now_ns(self) -> int:
        """The time."""

    def wait_until(self, t_ns: int) -> None:
        """Let time pass until then, or until somebody wishes the end."""

    def wish_to_end(self) -> str:
        """The name of the signal that asked for an early end; empty while nobody has."""

    def machine(self) -> Reading:
        """The machine's own counters, as far as they matter here."""
