"""A whole lab in virtual time: every host of a lab file, with verified write_bw flows between them, at the lab's rates.

The same NICs, workloads and time dilation as on the kernel lab, on the network of `network`; what is missing is the
machine: agents take no time here, unless they are made to stall.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from agents.mrc.config import BASE_RTT_NS, MrcConfig
from agents.nic import Nic, NicConfig
from agents.transport import Event, QueuePair
from agents.workloads.pattern import Pattern
from agents.workloads.write_bw import Offer, Target, WriteBwReceiver, WriteBwSender
from testbed.sim.events import EventList
from testbed.sim.host import SimHost
from testbed.sim.link import LinkSpec
from testbed.sim.network import LossyNetwork
from testbed.topology import clos as clos_model
from testbed.topology.labspec import LabSpec

_HOP_NS = 50_000  # what the kernel takes to forward a packet, with room to spare
_MESSAGE_BYTES = 32 << 10
_SLOTS = 32
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

    def __init__(self, spec: LabSpec, *, seed: int, **options: Any) -> None:
        """`options` are settings of MrcConfig, which otherwise follow the lab file."""
        rng = Random(seed)
        self.spec = spec
        self.clos = clos_model.build(spec)
        self.events = EventList()
        self.network = LossyNetwork(
            self.clos, self.events, rng, LinkSpec(delay_ns=_HOP_NS, queue_bytes=spec.queue.size)
        )
        self.log: list[tuple[int, Event]] = []
        self.flows: list[LabFlow] = []
        transport = {
            "evs_per_plane": spec.transport.evs_per_plane,
            "congestion": spec.transport.congestion,
            "window_bytes": spec.transport.window,
            "plane_bdp_bytes": spec.stands_for.host * BASE_RTT_NS // _NS_BITS,
            "ev_min_active": spec.transport.ev_min_active,
            "retire_evs": spec.transport.retire_evs,
            "probe_interval_ns": spec.transport.probe_interval,
        }
        self._config = MrcConfig.dilated(spec.time_dilation, **transport | options)
        self.hosts = [self._host(host, rng.getrandbits(64)) for host in range(spec.hosts)]

    def _host(self, host: int, seed: int) -> SimHost:
        spec = self.spec
        config = NicConfig(
            host=host,
            planes=spec.planes,
            t0_groups=spec.t0_groups,
            hosts_per_t0=spec.hosts_per_t0,
            t1s_per_plane=spec.t1s_per_plane,
            time_dilation=spec.time_dilation,
            real_rate_bps=spec.stands_for.host,
        )
        sim_host = SimHost(host, Nic(config, Random(seed)), self.network, self.events)
        sim_host.listeners.append(lambda event: self.log.append((host, event)))
        return sim_host

    def start_flows(self, pairs: Iterable[tuple[int, int]], *, load_bps: int | None) -> None:
        """write_bw from src to dst of each pair: payload bits per second, None for as fast as possible."""
        for src, dst in pairs:
            self.flows.append(self._flow(src, dst, load_bps))
        for flow in self.flows:
            self.hosts[flow.dst].start(flow.receiver)
            self.hosts[flow.src].start(flow.sender)

    def _flow(self, src: int, dst: int, load_bps: int | None) -> LabFlow:
        near, far = self.hosts[src].nic, self.hosts[dst].nic
        sending, receiving = near.create_qp(dst, options=self._config), far.create_qp(src, options=self._config)
        near.connect(sending.qpn, receiving.qpn, receiving.start_psn)
        far.connect(receiving.qpn, sending.qpn, sending.start_psn)
        region = far.register_memory(_MESSAGE_BYTES * _SLOTS)
        pattern = Pattern(src, _MESSAGE_BYTES)
        target = Target(region.address, region.rkey, len(region.buffer))
        sender = WriteBwSender(sending, pattern, target, Offer(load_bps=load_bps, start_ns=self.events.now))
        return LabFlow(src, dst, sender, WriteBwReceiver(receiving.qpn, pattern, region.buffer), sending, receiving)

    def run(self, for_ns: int) -> None:
        """Let so much virtual time pass."""
        self.events.run(until=lambda: False, deadline_ns=self.events.now + for_ns)

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
