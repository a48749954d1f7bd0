"""What an operation of an agent's control socket is: a function, and rules for the fields that it takes.

The operations themselves are tables in `operations` and `verb_operations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agents.agent import Agent
from agents.request import Reply, RequestError

_REQUIRED = object()
ANY = 1 << 64


class Host(Protocol):
    """What the operations work on: an agent, and the process (or the simulated host) that it lives in."""

    @property
    def name(self) -> str: ...
    @property
    def agent(self) -> Agent: ...

    def now_ns(self) -> int:
        """The time."""

    def identity(self) -> dict[str, Any]:
        """Its pid, and its ports by name with their carrier."""

    def totals(self) -> dict[str, Any]:
        """What it has counted since it was started, beside what the agent and its NIC count."""

    def stop(self) -> None:
        """End it, once the answer is out."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a request: its type, for numbers the range; without `default` it has to be there."""

    kind: type
    lowest: int = 0
    highest: int = ANY
    default: Any = _REQUIRED

    def check(self, name: str, request: Mapping[str, Any]) -> Any:
        """The value. Raises RequestError."""
        value = request.get(name, self.default)
        if value is _REQUIRED:
            raise RequestError(f"{name} is missing")
        if value is None and self.default is None:
            return None
        if not isinstance(value, self.kind) or (isinstance(value, bool) and self.kind is not bool):
            raise RequestError(f"{name} has to be {_KIND_NAMES[self.kind]}, not {value!r:.80}")
        if isinstance(value, int) and not self.lowest <= value <= self.highest:
            raise RequestError(f"{name} is {value}; it has to be in {self.lowest}..{self.highest}")
        return value


def check_fields(what: str, rules: Mapping[str, Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """All fields that there are, checked, or by default. Raises RequestError."""
    unknown = set(given) - set(rules)
    if unknown:
        raise RequestError(f"{what} takes no {', '.join(sorted(unknown))}")
    return {name: rule.check(name, given) for name, rule in rules.items()}


_KIND_NAMES: dict[type, str] = {
    int: "a whole number",
    float: "a number with a point",
    str: "a string",
    list: "a list",
    dict: "an object",
    bool: "true or false",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """A function and the fields that it takes."""

    run: Callable[[Host, dict[str, Any], Reply], None]
    fields: Mapping[str, Field]
