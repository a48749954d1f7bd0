"""A probe's round trip from agent to agent, beside that of a bare frame over the same path.

The probe is what keeps EVs alive: an endpoint operation that the far agent answers over the same EV. The bare frame
goes from one raw socket to another, and back, without any logic; both ends are this process, so that its round trip is
what the kernel takes for six hops and nothing else.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agents.wire import ev
from testbed.bench import fabric
from testbed.bench.frame import RATIO, Alternation, Bench, Numbers, Say
from testbed.fabric import netns, plan
from testbed.lab.running import RunningLab
from testbed.topology.errors import MrclabError
from testbed.topology.labspec import LabSpec

_NEAR, _FAR = "h0", "h1"
_PROBES = 200
_PAYLOAD_BYTES = 64  # about a probe's
_TIMEOUT_S = 1.0
_NS_PER_US = 1000
_ETH_P_IPV6 = 0x86DD
_SPEC = LabSpec.model_validate(
    {
        "name": "bench-probe",
        "planes": 2,
        "t0_groups": 2,
        "hosts_per_t0": 1,
        "t1s_per_plane": 2,
        "rates": {"host": "1 Gb/s", "fabric": "1 Gb/s"},
    }
)


def _raw_round_trips_us(running: RunningLab) -> list[float]:
    near_device, there = fabric.frames(running, _NEAR, _FAR, _PAYLOAD_BYTES)[0]
    far_device, back = fabric.frames(running, _FAR, _NEAR, _PAYLOAD_BYTES)[0]
    with ExitStack() as opened:
        near = opened.enter_context(_bound(running, _NEAR, near_device))
        far = opened.enter_context(_bound(running, _FAR, far_device))
        found = []
        for _ in range(_PROBES):
            start_ns = time.monotonic_ns()
            near.send(there)
            far.recv(1 << 16)
            far.send(back)
            near.recv(1 << 16)
            found.append((time.monotonic_ns() - start_ns) / _NS_PER_US)
    return found


def _bound(running: RunningLab, host: str, device: str) -> socket.socket:
    """A socket that sends on a port and sees what comes in there, but not what goes out."""
    opened = netns.open_socket(plan.namespace_name(running.name, host), socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    opened.bind((device, _ETH_P_ALL))
    opened.settimeout(_TIMEOUT_S)
    return opened


_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_ETH_P_ALL = 3  # clsact takes the packet away before sockets bound to one protocol see it


def _probe_round_trips_us(running: RunningLab) -> list[float]:
    peer = running.clos.nodes[_FAR].index
    found = []
    with running.agent(_NEAR) as agent:
        for _ in range(_PROBES):
            (told,) = agent.call("probe", peer=peer, evs=[ev.make(0, 0)], timeout_ns=round(_TIMEOUT_S * 1e9))["results"]
            if not told["answered"]:
                raise MrclabError(f"no answer to a probe within {_TIMEOUT_S:.0f} s", "is the machine very busy?")
            found.append(told["rtt_ns"] / _NS_PER_US)
    return found


@contextmanager
def _prepare(say: Say) -> Iterator[Alternation]:
    with fabric.lab(_SPEC) as running:

        def once() -> Numbers:
            probes = _probe_round_trips_us(running)
            with fabric.without_agents(running):
                raw = _raw_round_trips_us(running)
            probe_us, raw_us = statistics.median(probes), statistics.median(raw)
            return {
                RATIO: probe_us / raw_us,
                "probe_us": probe_us,
                "probe_p99_us": statistics.quantiles(probes, n=100)[-1],
                "raw_us": raw_us,
                "probes": len(probes),
            }

        yield once


BENCH = Bench(
    title="round trip of an EV probe over T1",
    prepare=_prepare,
    ratio_of="an agent's probe / a bare frame there and back",
    better="lower",
    tolerance=0.5,
)
