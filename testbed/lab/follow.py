"""Reads what agents sample and see, from where it left off: each reader has a place of its own in every agent's log.

The agents keep the newest entries (`agents.telemetry`) and no account of who reads them, so a run's collector, the live
page and a terminal can follow the same lab at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

Fields = dict[str, Any]
_MAX_ROUNDS = 20  # of `collect` for one agent that always has more


class Asked(Protocol):
    """The agents of some hosts, asked side by side. One that does not answer may be left out of the answers."""

    @property
    def hosts(self) -> list[str]: ...
    def call_each(self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]]) -> dict[str, Fields]: ...


class Follower:
    """One reader. `totals` is the agents' last word on their counters, by host; `missed` counts entries it never saw.

    Reading begins with the oldest entries that the agents still have, or with `skip_to_now`.
    """

    def __init__(self, agents: Asked) -> None:
        self._agents = agents
        self._places: dict[str, Fields] = {host: {"samples_from": 0, "events_from": 0} for host in agents.hosts}
        self._started: set[str] = set()  # hosts that were read before: what they had lost until then was never missed
        self.totals: dict[str, Fields] = {}
        self.missed = 0

    def skip_to_now(self) -> None:
        """Begin with what comes from now on. Raises AgentError when an agent does not answer."""
        for host, answer in self._agents.call_each("collect", {host: {"limit": 0} for host in self._places}).items():
            self._places[host] = {"samples_from": answer["samples_end"], "events_from": answer["events_end"]}
            self._started.add(host)
            self.totals[host] = answer["totals"]

    def read(self, but: Collection[str] = ()) -> Iterator[tuple[str, list[Fields], list[Fields]]]:
        """(host, new samples, new events), a host that has much more than once. Raises AgentError as above.

        The hosts in `but` are not asked this time.
        """
        totals = dict(self.totals)
        waiting = [host for host in self._places if host not in but]
        for _ in range(_MAX_ROUNDS):
            answers = self._agents.call_each("collect", {host: self._places[host] for host in waiting})
            for host, answer in answers.items():
                if host in self._started:
                    self.missed += answer["samples_missed"] + answer["events_missed"]
                self._started.add(host)
                self._places[host] = {"samples_from": answer["samples_next"], "events_from": answer["events_next"]}
                totals[host] = answer["totals"]
                yield host, answer["samples"], answer["events"]
            waiting = [host for host, answer in answers.items() if answer["more"]]
            if not waiting:
                break
        self.totals = totals
