"""What a kind of fault is: pure data that the lab's injector and the simulator read alike.

A kind says which ports it acts on and what it does to each. How that is done is the reader's: the injector takes the
interface down in the kernel, the simulator sets a flag. Faults on one port add up: it is down while any of them holds
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from testbed.topology.clos import Link, Port

End = Literal["near", "far", "both"]
Effect = Literal["down"]  # the port is switched off by its own node: its peer loses carrier


@dataclass(frozen=True, slots=True)
class Act:
    """One effect on one port."""

    port: Port
    effect: Effect


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: its name in scenario files and on the command line, one line of documentation, and its acts."""

    name: str
    doc: str
    acts: Callable[[Link, End], tuple[Act, ...]]


def ports_of(link: Link, end: End) -> tuple[Port, ...]:
    """The ports of a link that `end` names; near is the lower tier."""
    return {"near": (link.a,), "far": (link.b,), "both": (link.a, link.b)}[end]
