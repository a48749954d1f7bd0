"""What self-probes cost, as a formula. Per interval, each path is probed once, and each probe crosses a link both ways.

    a host sends      planes x (1 + max(hosts per T0, T1s) / hosts per T0)      probes
    a NIC-T0 link     1 + T1s that its host shares                              each way
    a T0-T1 link      hosts that share it                                       each way

Bytes are Ethernet frames without the frame check sequence, as the emulated ports count them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agents.clustermapper.settings import SHORTEST_INTERVAL_NS
from agents.wire import headers, icrc
from agents.wire.packet import IPV6_BYTES, UDP_BYTES

_NS_PER_S = 1_000_000_000
_ETHERNET_BYTES = 14

PROBE_BYTES = (
    _ETHERNET_BYTES
    + 2 * IPV6_BYTES
    + UDP_BYTES
    + headers.BTH.size
    + headers.EndpointRequest.LAYOUT.size
    + icrc.ICRC_BYTES
)

# What probes may take of a link, and all agents together of the machine's CPUs.
MOST_OF_A_LINK = 0.01
MOST_OF_THE_CPU = 0.05
# An agent's CPU for a probe, there and back, and for a beat, in which it is woken up to send one on each plane: above
# the most that `mrclab health --cost` measured with two, four and eight planes on the machine that these defaults were
# made on.
CPU_NS_PER_PROBE = 50_000
CPU_NS_PER_BEAT = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A fabric that is probed: its shape, its rates in bits per second, and the interval of a path's probes."""

    planes: int
    hosts: int
    hosts_per_t0: int
    t1s_per_plane: int
    host_bps: int
    fabric_bps: int

    @property
    def _turns(self) -> int:
        return max(self.hosts_per_t0, self.t1s_per_plane)

    @property
    def probes_of_host(self) -> float:
        """Probes that a host sends per interval, on average over the hosts of a rack."""
        return self.planes * (1 + self._turns / self.hosts_per_t0)

    @property
    def probes_on_nic_link(self) -> int:
        """Probes that cross a NIC's link each way per interval, where most do."""
        return 1 + math.ceil(self._turns / self.hosts_per_t0)

    @property
    def probes_on_fabric_link(self) -> int:
        """Probes that cross a T0-T1 link each way per interval, where most do."""
        return math.ceil(self._turns / self.t1s_per_plane)

    @property
    def cpu_ns_of_host(self) -> float:
        """An agent's CPU per interval; a beat has a probe on each plane."""
        return self.probes_of_host * (CPU_NS_PER_PROBE + CPU_NS_PER_BEAT / self.planes)

    def shortest_interval_ns(self, cores: int) -> int:
        """The shortest interval that keeps to MOST_OF_A_LINK and MOST_OF_THE_CPU, never under the paper's.

        `cores`: CPUs that all agents share.
        """
        bits = 8 * PROBE_BYTES * _NS_PER_S / MOST_OF_A_LINK
        nic_ns = self.probes_on_nic_link * bits / self.host_bps
        fabric_ns = self.probes_on_fabric_link * bits / self.fabric_bps
        cpu_ns = self.hosts * self.cpu_ns_of_host / (cores * MOST_OF_THE_CPU)
        return max(SHORTEST_INTERVAL_NS, math.ceil(max(nic_ns, fabric_ns, cpu_ns)))

    def cost(self, interval_ns: int) -> Cost:
        """What it costs to probe each path once in `interval_ns`."""
        per_s = _NS_PER_S / interval_ns
        return Cost(
            interval_ns=interval_ns,
            host_packets_per_s=self.probes_of_host * per_s,
            host_bytes_per_s=self.probes_of_host * per_s * PROBE_BYTES,
            nic_link_packets_per_s=self.probes_on_nic_link * per_s,
            nic_link_share=self.probes_on_nic_link * per_s * PROBE_BYTES * 8 / self.host_bps,
            fabric_link_packets_per_s=self.probes_on_fabric_link * per_s,
            fabric_link_share=self.probes_on_fabric_link * per_s * PROBE_BYTES * 8 / self.fabric_bps,
            all_packets_per_s=self.hosts * self.probes_of_host * per_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Probes per second: sent by a host; on a link each way, where most are; of all hosts. Shares of capacity: 0..1."""

    interval_ns: int
    host_packets_per_s: float
    host_bytes_per_s: float
    nic_link_packets_per_s: float
    nic_link_share: float
    fabric_link_packets_per_s: float
    fabric_link_share: float
    all_packets_per_s: float
