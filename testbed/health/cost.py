"""What probing a lab that is up really takes, by its ports' counters and its agents' CPU time, beside the formula.

Probing is off and on in turns, all else being equal; the difference is the cost. Traffic that runs meanwhile is in
both, but not evenly: measure an idle lab.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from agents.clustermapper.cost import PROBE_BYTES, Cost, Probed
from testbed.lab.agents import AgentGroup
from testbed.lab.port_status import named_ports
from testbed.lab.running import RunningLab
from testbed.topology.errors import InputError
from testbed.topology.healthspec import agent_settings, probed
from testbed.topology.units import format_duration, format_rate

_NS_PER_S = 1_000_000_000
_TURNS = 3
_TURN_NS = 2_000_000_000
_LEAST_INTERVALS = 5  # of a turn
_SETTLE_S = 0.3

# 100 000 hosts of eight 100 Gb/s ports, on switches of 64 x 800 = 512 x 100 Gb/s: 256 hosts and 256 T1s a T0.
LARGE = Probed(
    planes=8,
    hosts=100_000,
    hosts_per_t0=256,
    t1s_per_plane=256,
    host_bps=100_000_000_000,
    fabric_bps=100_000_000_000,
)
LARGE_INTERVAL_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Turn:
    """Rates of one turn."""

    packets_per_s: dict[str, float]  # by port
    bytes_per_s: dict[str, float]
    cpu_share: list[float]  # of one core, by agent


@dataclass(frozen=True)
class CostReport:
    """Means over all turns. CPU shares are of one core."""

    lab: str
    cores: int
    formula: Cost
    host_packets_per_s: float
    host_bytes_per_s: float
    nic_link_packets_per_s: float
    nic_link_share: float
    fabric_link_packets_per_s: float
    fabric_link_share: float
    cpu_share_on: float  # of an agent, with probes
    cpu_share_off: float  # without
    large: Cost
    large_hosts: int
    dilation: float

    @property
    def cpu_ns_per_probe(self) -> float:
        """An agent's CPU for a probe, there and back."""
        return (self.cpu_share_on - self.cpu_share_off) * _NS_PER_S / self.host_packets_per_s

    def machine_share(self, agents: int) -> float:
        """Of all CPUs together, for the probes of all agents."""
        return (self.cpu_share_on - self.cpu_share_off) * agents / self.cores

    def compared(self) -> list[tuple[str, float, float]]:
        """(what, measured, formula)."""
        names = {
            "probes/s a host sends": "host_packets_per_s",
            "bytes/s a host sends": "host_bytes_per_s",
            "probes/s on a NIC's link, each way": "nic_link_packets_per_s",
            "share of a NIC's link": "nic_link_share",
            "probes/s on a T0-T1 link, each way": "fabric_link_packets_per_s",
            "share of a T0-T1 link": "fabric_link_share",
        }
        return [(text, getattr(self, name), getattr(self.formula, name)) for text, name in names.items()]

    def rows(self) -> list[list[Any]]:
        """For a table."""
        return [
            [what, _show(what, seen), _show(what, said), f"{seen / said:.3f}"] for what, seen, said in self.compared()
        ]

    def lines(self) -> list[str]:
        """The rest in words."""
        agents = round(self.formula.all_packets_per_s / self.formula.host_packets_per_s)
        interval, large = self.formula.interval_ns, self.large
        return [
            f"a probe has {PROBE_BYTES} bytes; each path is probed every {format_duration(interval)}, "
            f"which is {format_duration(interval / self.dilation)} of the real fabric",
            f"an agent takes {self.cpu_share_on:.2%} of a core with probes and {self.cpu_share_off:.2%} without: "
            f"{self.cpu_ns_per_probe / 1000:.0f} us a probe; all {agents} agents {self.machine_share(agents):.2%} of "
            f"the machine's {self.cores} CPUs",
            f"{self.large_hosts} hosts, 8 planes of 100 Gb/s, every {format_duration(large.interval_ns)} (formula): "
            f"a host sends {large.host_packets_per_s:.0f} probes/s, {format_rate(8 * large.host_bytes_per_s)}; "
            f"a NIC's link carries {large.nic_link_packets_per_s:.0f}/s each way, {large.nic_link_share:.4%} of it, "
            f"a T0-T1 link {large.fabric_link_packets_per_s:.0f}/s, {large.fabric_link_share:.4%}; "
            f"all hosts together {large.all_packets_per_s / 1e9:.2g} billion probes/s, "
            f"{format_rate(8 * large.all_packets_per_s * PROBE_BYTES)}",
        ]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {**asdict(self), "cpu_ns_per_probe": self.cpu_ns_per_probe, "probe_bytes": PROBE_BYTES}


def _show(what: str, value: float) -> str:
    return f"{value:.4%}" if what.startswith("share") else f"{value:.1f}"


def measure(lab: RunningLab, for_ns: int | None, progress: Callable[[str], None]) -> CostReport:
    """Measure: `for_ns` in all, half of it with probes. What the hosts probed before, they probe again afterwards.

    Raises InputError where no probe can choose its path, and for a time in which there would be hardly any.
    """
    spec = lab.spec
    if not spec.source_routed:
        raise InputError(f"lab {lab.name} hashes flows onto paths; it has no self-probes", "take one of routing: srv6")
    settings = {**agent_settings(spec, spec.health, os.cpu_count() or 1), "policy": "observe"}
    least_ns = _LEAST_INTERVALS * settings["interval_ns"]
    turn_ns = max(_TURN_NS, least_ns) if for_ns is None else for_ns // (2 * _TURNS)
    if turn_ns < least_ns:
        every = format_duration(settings["interval_ns"])
        what = f"{format_duration(for_ns or 0)} is too short for probes every {every}"
        raise InputError(what, f"write {format_duration(2 * _TURNS * least_ns)} or more")
    progress(f"measuring {_TURNS} times {turn_ns / 1e9:.2g} s without probes and with them")
    off: list[_Turn] = []
    on: list[_Turn] = []
    with lab.agents() as agents:
        before = {host: answer["before"] for host, answer in agents.call("health-set", policy="off").items()}
        try:
            for _ in range(_TURNS):
                agents.call("health-set", policy="off")
                off.append(_turn(lab, agents, turn_ns))
                agents.call("health-set", **settings)
                on.append(_turn(lab, agents, turn_ns))
        finally:
            agents.ask_each("health-set", before)
    return _report(lab, off, on, probed(spec).cost(settings["interval_ns"]))


def _turn(lab: RunningLab, agents: AgentGroup, turn_ns: int) -> _Turn:
    time.sleep(_SETTLE_S)
    ports = dict(named_ports(lab.clos))
    start_ns, cpu = time.monotonic_ns(), _cpu_ns(agents)
    counts = {name: lab.port_map.counters(port.ifindex) for name, port in ports.items()}
    time.sleep(turn_ns / _NS_PER_S)
    seconds = (time.monotonic_ns() - start_ns) / _NS_PER_S
    later = {name: lab.port_map.counters(port.ifindex) for name, port in ports.items()}
    return _Turn(
        {name: (later[name].packets - counts[name].packets) / seconds for name in ports},
        {name: (later[name].bytes - counts[name].bytes) / seconds for name in ports},
        [(after - before) / seconds / _NS_PER_S for before, after in zip(cpu, _cpu_ns(agents), strict=True)],
    )


def _cpu_ns(agents: AgentGroup) -> list[int]:
    answers = agents.call("collect", limit=0)
    return [answers[host]["totals"]["cpu_ns"] for host in agents.hosts]


def _report(lab: RunningLab, off: list[_Turn], on: list[_Turn], formula: Cost) -> CostReport:
    spec, clos = lab.spec, lab.clos

    def rate(port: str, unit: str) -> float:
        return fmean(getattr(turn, unit)[port] for turn in on) - fmean(getattr(turn, unit)[port] for turn in off)

    tiers: dict[str, list[str]] = {"nic-t0": [], "t0-t1": []}
    for link in clos.links.values():
        tiers[link.tier] += [f"{link.a.node}>{link.b.node}", f"{link.b.node}>{link.a.node}"]
    uplinks = [f"{link.a.node}>{link.b.node}" for link in clos.links.values() if link.tier == "nic-t0"]
    busiest = {tier: max(rate(port, "packets_per_s") for port in ports) for tier, ports in tiers.items()}
    fullest = {tier: max(rate(port, "bytes_per_s") for port in ports) for tier, ports in tiers.items()}
    return CostReport(
        lab=lab.name,
        cores=os.cpu_count() or 1,
        formula=formula,
        host_packets_per_s=sum(rate(port, "packets_per_s") for port in uplinks) / spec.hosts,
        host_bytes_per_s=sum(rate(port, "bytes_per_s") for port in uplinks) / spec.hosts,
        nic_link_packets_per_s=busiest["nic-t0"],
        nic_link_share=8 * fullest["nic-t0"] / spec.rates.host,
        fabric_link_packets_per_s=busiest["t0-t1"],
        fabric_link_share=8 * fullest["t0-t1"] / spec.rates.fabric,
        cpu_share_on=fmean(share for turn in on for share in turn.cpu_share),
        cpu_share_off=fmean(share for turn in off for share in turn.cpu_share),
        large=LARGE.cost(LARGE_INTERVAL_NS),
        large_hosts=LARGE.hosts,
        dilation=spec.time_dilation,
    )
