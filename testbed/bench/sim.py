"""How many packet-hops a second of CPU the simulator makes, end to end and in its network alone.

End to end is `demo` in virtual time: every host sends to the one across at 60 % of what its ports carry, with NIC,
transport, verified bytes and agents, as `mrclab sim` does. The network alone then carries the very same packets at the
same times, from senders to receivers that do nothing: what is left is switches, queues and cables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from testbed.bench.frame import RATIO, Alternation, Bench, Numbers, Say
from testbed.sim.events import EventList
from testbed.sim.lab import KERNEL_HOP_NS, SimLab
from testbed.sim.link import CableSpec
from testbed.sim.network import SimNetwork
from testbed.topology.labfile import load_lab
from testbed.topology.labspec import LabSpec

_SEED = 1
_VIRTUAL_NS = 1_000_000_000
_LOAD = 0.6

Sent = list[tuple[int, int, int, bytes]]  # (when, host, port, packet)


def _end_to_end(spec: LabSpec) -> SimLab:
    lab = SimLab(spec, seed=_SEED)
    across = spec.hosts // 2
    pairs = [(host, (host + across) % spec.hosts) for host in range(spec.hosts)]
    lab.start_flows(pairs, load_bps=round(spec.rates.host * spec.planes * _LOAD))
    return lab


def _recorded(spec: LabSpec) -> Sent:
    """All that the hosts send in such a run."""
    lab = _end_to_end(spec)
    sent: Sent = []
    send = lab.network.send

    def record(host: int, port: int, data: bytes) -> None:
        sent.append((lab.events.now, host, port, data))
        send(host, port, data)

    lab.network.send = record  # type: ignore[method-assign]
    lab.run(_VIRTUAL_NS)
    return sent


def _network_alone(spec: LabSpec, sent: Sent) -> tuple[SimNetwork, EventList]:
    lab, events = SimLab(spec, seed=_SEED), EventList()
    network = SimNetwork(lab.clos, events, Random(_SEED), CableSpec(delay_ns=KERNEL_HOP_NS))
    for host in range(spec.hosts):
        network.attach(host, lambda port, data: None, lambda port, up: None)
    for when, host, port, data in sent:
        events.at(when, lambda packet: network.send(*packet), (host, port, data))
    return network, events


def _hops(network: SimNetwork) -> int:
    return network.fates()["delivered"]


def _rate(network: SimNetwork, run: Callable[[], None]) -> float:
    before, start = _hops(network), time.process_time()
    run()
    return (_hops(network) - before) / (time.process_time() - start)


@contextmanager
def _prepare(say: Say) -> Iterator[Alternation]:
    spec = load_lab("demo")
    sent = _recorded(spec)
    say(f"{len(sent)} packets in {_VIRTUAL_NS / 1e9:.0f} s of virtual time")

    def once() -> Numbers:
        lab = _end_to_end(spec)
        whole = _rate(lab.network, lambda: lab.run(_VIRTUAL_NS))
        network, events = _network_alone(spec, sent)
        alone = _rate(network, lambda: events.run_to(_VIRTUAL_NS))
        return {RATIO: whole / alone, "hops_per_cpu_s": whole, "network_hops_per_cpu_s": alone}

    yield once


BENCH = Bench(
    title="packet-hops per second of CPU in virtual time",
    prepare=_prepare,
    ratio_of="end to end / the network alone, same packets",
    needs_root=False,
)
