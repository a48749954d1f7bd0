"""Proof that paths are what their EVs say: a probe over each EV, and the switches' own counters for where it went.

For every ordered pair of T0 groups, every plane and every T1, one probe goes from a host of the one group to a host of
the other; its answer comes back over the same EV reversed (agents.mrc.endpoint). In one round all probes name the same
T1 number: then the uSIDs of exactly these T1s have to count, by exactly two packets a probe, those of the T0s
accordingly, and those of all other T1s not at all. The counters are the kernel's (`fabric.counters`), so no agent is
believed. For a fabric that hashes see `verify_hashed`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from agents.wire import ev
from testbed.fabric.counters import sid_counters
from testbed.fabric.netlink import Kernel
from testbed.lab.agents import AgentClient, AgentGroup
from testbed.topology import clos
from testbed.topology.clos import Clos
from testbed.topology.errors import MrclabError
from testbed.topology.trace import Trace

_PACKETS_PER_PROBE = 2  # it, and its answer
TRIES = 3  # a packet may be late or lost on a machine that is busy elsewhere; a wrong path is wrong each time
SHOWN = 5
PROBE_TIMEOUT_NS = 500_000_000


class PathError(MrclabError):
    """A path does not go where its EV says."""


def verify_paths(fabric: Clos, kernel: Kernel, agents: AgentGroup, progress: Callable[[int, int], None]) -> int:
    """Probe all paths between T0 groups; how many were proved. Needs a lab without other MRC traffic.

    Raises PathError with what went elsewhere, or did not come.
    """
    spec = fabric.spec
    counted = _counted(fabric, kernel)
    for t1 in range(spec.t1s_per_plane):
        for attempt in range(1, TRIES + 1):
            wrong = _probe_all(fabric, agents, t1)
            before, counted = counted, _counted(fabric, kernel)
            wrong += _miscounted(fabric, t1, {name: counted[name] - before[name] for name in counted})
            if not wrong:
                break
            if attempt == TRIES:
                more = f" (and {len(wrong) - SHOWN} more)" if len(wrong) > SHOWN else ""
                raise PathError("paths are not as their EVs say: " + "; ".join(wrong[:SHOWN]) + more)
        progress(t1 + 1, spec.t1s_per_plane)
    return _pairs(fabric) * spec.planes * spec.t1s_per_plane


def _pairs(fabric: Clos) -> int:
    return fabric.spec.t0_groups * (fabric.spec.t0_groups - 1)


def _counted(fabric: Clos, kernel: Kernel) -> dict[str, int]:
    return sid_counters(kernel, [switch.name for switch in fabric.switches])


def _miscounted(fabric: Clos, t1: int, counted: dict[str, int]) -> list[str]:
    """Which switches counted other packets than those of a round through the T1s numbered `t1`, in words."""
    return [
        f"{name} counted {counted[name]} packets, not {expected}, of probes through T1 number {t1}"
        for name, expected in _expected(fabric, t1).items()
        if counted[name] != expected
    ]


def _probe_all(fabric: Clos, agents: AgentGroup, t1: int) -> list[str]:
    """One probe for each ordered pair and plane, through the T1s numbered `t1`; what was not answered, in words.

    Each host of a group stands for it towards another group, all at the same time; when there are more groups than a
    group has hosts, one after the other.
    """
    spec = fabric.spec
    evs = [ev.make(plane, t1) for plane in range(spec.planes)]
    distances = range(1, spec.t0_groups)
    wrong = []
    for first in range(0, len(distances), spec.hosts_per_t0):
        peers: dict[int, int] = {}
        for distance in distances[first : first + spec.hosts_per_t0]:
            slot = (t1 + distance) % spec.hosts_per_t0  # another one in each round
            delegates = [group * spec.hosts_per_t0 + slot for group in range(spec.t0_groups)]
            peers |= {host: delegates[(at + distance) % len(delegates)] for at, host in enumerate(delegates)}
        answers = agents.call_each(
            "probe",
            {
                clos.host_name(host): {"peer": peer, "evs": evs, "timeout_ns": PROBE_TIMEOUT_NS}
                for host, peer in peers.items()
            },
        )
        for host, peer in peers.items():
            for result in answers[clos.host_name(host)]["results"]:
                if not result["answered"]:
                    path = " ".join(fabric.path_nodes(host, peer, ev.plane_of(result["ev"]), t1))
                    wrong.append(f"no answer over {path}")
    return wrong


def _expected(fabric: Clos, t1: int) -> dict[str, int]:
    """Packets that each switch has to count in a round."""
    through_t1 = _pairs(fabric) * _PACKETS_PER_PROBE
    # a T0 is one end of 2 (groups - 1) ordered pairs
    through_t0 = 2 * (fabric.spec.t0_groups - 1) * _PACKETS_PER_PROBE
    expected = {}
    for switch in fabric.switches:
        if switch.kind == "t0":
            expected[switch.name] = through_t0
        else:
            expected[switch.name] = through_t1 if switch.index == t1 else 0
    return expected


@dataclass(frozen=True, slots=True)
class Proof:
    """A probe over one EV: was it answered, and which switches counted it on the way there and back.

    `crossed` are the switches of the path that counted it, in the order of the path; `others` are switches off the path
    that counted packets meanwhile: with any there, other traffic was on its way and the counters prove less.
    """

    answered: bool
    rtt_ns: int | None
    crossed: list[str]
    others: list[str]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def prove(fabric: Clos, kernel: Kernel, agent: AgentClient, way: Trace) -> Proof:
    """Send a probe over an EV, and see by the per-SID counters where it really went."""
    switches = [switch.name for switch in fabric.switches]
    before = sid_counters(kernel, switches)
    peer = fabric.nodes[way.dst].index
    known = way.ev if way.t1 is not None else ev.make(way.plane, 0)  # inside a rack a host has one EV per plane
    (told,) = agent.call("probe", peer=peer, evs=[known], timeout_ns=PROBE_TIMEOUT_NS)["results"]
    after = sid_counters(kernel, switches)
    counted = [name for name in switches if after[name] - before[name] >= 1]
    return Proof(
        answered=told["answered"],
        rtt_ns=told.get("rtt_ns"),
        crossed=[name for name in way.nodes[1:-1] if name in counted],
        others=[name for name in counted if name not in way.nodes],
    )
