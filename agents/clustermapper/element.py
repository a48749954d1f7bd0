"""Parts of the fabric that can be accused, and what is said about one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["nic-t0", "t0", "t0-t1", "t1"]
State = Literal["ok", "down", "lossy", "slow", "suspect", "unknown"]

BAD: tuple[State, ...] = ("down", "lossy", "slow")


class Element(NamedTuple):
    """`near`: of a NIC's link the host, else the T0's number (of a T1: its own); `t1`: of a T0-T1 link."""

    kind: Kind
    plane: int
    near: int
    t1: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What all reports together say about an element. Times in ns, probabilities 0..1."""

    element: Element
    state: State
    why: str
    confidence: float  # that the state is this, and this element the cause
    loss: float = 0.0  # of the probes that crossed it and came back over it, both ways together
    probes: int = 0  # that `loss` rests on
    since_ns: int = 0
    found_by: tuple[int, ...] = ()  # hosts
    rtt_p50_ns: int = 0
    rtt_p99_ns: int = 0
    marked: float = 0.0  # share of probes with a congestion mark, both ways together
