"""testbed.lab.follow: every reader sees everything once, in order, whatever other readers do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.telemetry import Log
from testbed.lab.follow import Follower

_LIMIT = 4


class Agents:
    """The logs of two agents behind the operation `collect`, as `agents.operations` answers it."""

    def __init__(self) -> None:
        self.logs = {host: {"samples": Log(10), "events": Log(10)} for host in ("h0", "h1")}

    @property
    def hosts(self) -> list[str]:
        return list(self.logs)

    def call_each(self, op: str, fields_by_host: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        assert op == "collect"
        return {host: self._collect(host, **fields) for host, fields in fields_by_host.items()}

    def _collect(self, host: str, samples_from: int = 0, events_from: int = 0, limit: int = _LIMIT) -> dict[str, Any]:
        answer: dict[str, Any] = {"more": False, "totals": {"host": host}}
        for name, start in (("samples", samples_from), ("events", events_from)):
            log = self.logs[host][name]
            entries, after, missed = log.read(start, limit)
            answer |= {name: entries, f"{name}_next": after, f"{name}_missed": missed, f"{name}_end": log.end}
            answer["more"] |= after < log.end
        return answer

    def happen(self, host: str, *numbers: int) -> None:
        for number in numbers:
            self.logs[host]["events"].append({"number": number})


def numbers(follower: Follower) -> list[tuple[str, int]]:
    return [(host, event["number"]) for host, _, events in follower.read() for event in events]


def test_two_followers_see_the_same_each_from_its_own_place() -> None:
    agents = Agents()
    agents.happen("h0", *range(6))
    late = Follower(agents)
    late.skip_to_now()
    early = Follower(agents)
    assert numbers(early) == [("h0", number) for number in range(6)]
    agents.happen("h1", 7)
    assert numbers(late) == [("h1", 7)]
    assert numbers(early) == [("h1", 7)]
    assert numbers(early) == []
    assert early.missed == late.missed == 0
    assert early.totals == {"h0": {"host": "h0"}, "h1": {"host": "h1"}}


def test_only_what_came_after_the_first_look_can_be_missed() -> None:
    agents = Agents()
    agents.happen("h0", *range(30))
    follower = Follower(agents)
    assert numbers(follower) == [("h0", number) for number in range(20, 30)]
    assert follower.missed == 0
    agents.happen("h0", *range(30, 45))
    assert numbers(follower) == [("h0", number) for number in range(35, 45)]
    assert follower.missed == 5
