"""A whole lab in virtual time: every host of a lab file with its NIC and agent, at the lab's rates or the real ones.

The same NICs, agents, workloads and time dilation as on the kernel lab, on the network of `network`; what is missing is
the machine: agents take no time here, unless they are made to stall.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from agents.agent import Agent
from agents.clustermapper.settings import Settings
from agents.nic import Nic
from agents.nic_config import NicConfig
from agents.telemetry import DEFAULT_SAMPLE_INTERVAL_NS
from agents.transport import Event, QueuePair
from agents.workloads.pattern import Pattern
from agents.workloads.write_bw import Offer, Target, WriteBwReceiver, WriteBwSender
from testbed.sim.agents import SimAgents, SimulatedHost
from testbed.sim.events import EventList
from testbed.sim.hashed import HashedNetwork
from testbed.sim.host import SimHost
from testbed.sim.link import CableSpec
from testbed.sim.network import SimNetwork
from testbed.sim.ports import SimPorts
from testbed.topology import clos as clos_model
from testbed.topology.clos import host_name
from testbed.topology.errors import InputError
from testbed.topology.healthspec import agent_settings
from testbed.topology.labspec import LabSpec

KERNEL_HOP_NS = 50_000  # what the kernel takes to forward a packet, with room to spare
REAL_HOP_NS = 1_000  # a switch and 100 m of fibre
_MESSAGE_BYTES = 32 << 10
_SLOTS = 32
_SIM_CORES = 2  # agents take no time here; the default interval is what a small machine would have
_NS_BITS = 8 * 10**9


@dataclass(frozen=True, slots=True)
class LabFlow:
    """A write_bw flow and the two ends of its queue pair."""

    src: int
    dst: int
    sender: WriteBwSender
    receiver: WriteBwReceiver
    sending_qp: QueuePair
    receiving_qp: QueuePair


class SimLab:
    """The lab. `log`: (host, event) of all NICs, in order of time."""

    def __init__(self, spec: LabSpec, *, seed: int, speedup: float = 1.0, **options: Any) -> None:
        """`options` are settings of the transport for `start_flows`, which otherwise follow the lab file.

        Raises InputError for a routing that is the kernel lab's alone.

        `speedup`: how much faster this lab's time is than that of the lab it was made from (`topology.timescale`).
        """
        if spec.routing == "bgp":
            what = f"lab {spec.name}: routing: bgp does not exist in virtual time, where no FRR runs"
            raise InputError(what, "use mrclab run, or write routing: ecmp")
        rng = Random(seed)
        self.spec = spec
        self.clos = clos_model.build(spec)
        self.events = EventList()
        hop_ns = REAL_HOP_NS if spec.time_dilation == 1 else KERNEL_HOP_NS
        network = SimNetwork if spec.source_routed else HashedNetwork
        self.network = network(self.clos, self.events, rng, CableSpec(delay_ns=hop_ns))
        self.ports = SimPorts(self.network)
        self.log: list[tuple[int, Event]] = []
        self.flows: list[LabFlow] = []
        self._options = spec.transport.qp_options() | options
        self._sample_interval_ns = round(DEFAULT_SAMPLE_INTERVAL_NS / speedup)
        self._agents = [self._agent(host, rng.getrandbits(64)) for host in range(spec.hosts)]
        self.hosts = [host.host for host in self._agents]
        self.agents = SimAgents({host.name: host for host in self._agents}, self.events)

    def _agent(self, host: int, seed: int) -> SimulatedHost:
        spec = self.spec
        config = NicConfig(
            host=host,
            planes=spec.planes,
            t0_groups=spec.t0_groups,
            hosts_per_t0=spec.hosts_per_t0,
            t1s_per_plane=spec.t1s_per_plane,
            time_dilation=spec.time_dilation,
            real_rate_bps=spec.stands_for.host,
            trimming=spec.queue.trimming,
            source_routed=spec.source_routed,
        )
        nic = Nic(config, Random(seed))
        nic.set_health(Settings(**agent_settings(spec, spec.health, _SIM_CORES)), self.events.now)
        agent = Agent(nic, self.events.now, self._sample_interval_ns)
        sim_host = SimHost(host, nic, self.network, self.events, agent)
        sim_host.listeners.append(lambda event: self.log.append((host, event)))
        return SimulatedHost(host_name(host), agent, sim_host, self.events)

    def start_flows(self, pairs: Iterable[tuple[int, int]], *, load_bps: int | None, slots: int = _SLOTS) -> None:
        """write_bw from src to dst of each pair: payload bits per second, None for as fast as possible.

        At most `slots` messages of 32 KB are under way. A lost packet holds all behind its message back, so that what
        the flow can send while a loss is repaired has to fit.
        """
        started = [self._flow(src, dst, load_bps, slots) for src, dst in pairs]
        self.flows += started
        for flow in started:
            self.hosts[flow.src].settle()

    def _flow(self, src: int, dst: int, load_bps: int | None, slots: int) -> LabFlow:
        near, far = self._agents[src].agent, self._agents[dst].agent
        transport = self.spec.transport.kind
        sending = near.create_qp(dst, self._options, 1, transport)
        receiving = far.create_qp(src, self._options, _MESSAGE_BYTES * slots, transport)
        near.nic.connect(sending.qp.qpn, receiving.qp.qpn, receiving.qp.start_psn)
        far.nic.connect(receiving.qp.qpn, sending.qp.qpn, sending.qp.start_psn)
        pattern, region = Pattern(src, _MESSAGE_BYTES), receiving.region
        target = Target(region.address, region.rkey, len(region.buffer))
        sender = WriteBwSender(sending.qp, pattern, target, Offer(load_bps=load_bps, start_ns=self.events.now))
        receiver = WriteBwReceiver(receiving.qp.qpn, pattern, region.buffer)
        far.add_workload(receiving, receiver)
        near.add_workload(sending, sender)
        return LabFlow(src, dst, sender, receiver, sending.qp, receiving.qp)

    def run(self, for_ns: int) -> None:
        """Let so much virtual time pass."""
        self.events.run_to(self.events.now + for_ns)

    def goodput_bps(self, for_ns: int, bin_ns: int) -> list[float]:
        """Let time pass; payload that arrives anew at all receivers together, for each bin of it."""
        bins = []
        for _ in range(for_ns // bin_ns):
            before = self._received_bytes()
            self.run(bin_ns)
            bins.append((self._received_bytes() - before) * _NS_BITS / bin_ns)
        return bins

    def _received_bytes(self) -> int:
        return sum(sum(flow.receiving_qp.bytes_received_by_port) for flow in self.flows)

    def drain(self, within_ns: int) -> bool:
        """Stop all senders and wait until everything posted is acknowledged; whether that came to pass in time."""
        for flow in self.flows:
            flow.sender.stop(self.events.now)
        return self.events.run(
            until=lambda: all(flow.sender.done for flow in self.flows), deadline_ns=self.events.now + within_ns
        )
