"""agent-pause, agent-restart: the process that is a host's NIC stands still, or dies and is started anew."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act, Kill, Pause
from testbed.chaos.kinds.kind import Case, Kind


def _pause(case: Case) -> tuple[Act, ...]:
    return tuple(Pause(node.name) for node in case.target.nodes)


def _kill(case: Case) -> tuple[Act, ...]:
    return tuple(Kill(node.name) for node in case.target.nodes)


PAUSE = Kind(
    name="agent-pause",
    doc="a host's agent is stopped (SIGSTOP) and goes on later, 200 ms when nothing else is said",
    takes="host",
    acts=_pause,
    lasts_ns=200_000_000,
)
RESTART = Kind(
    name="agent-restart",
    doc="a host's agent is killed, and started anew 1 s later; the queue pairs of a run on it die with it",
    takes="host",
    acts=_kill,
    lasts_ns=1_000_000_000,
)
