"""Who a NIC is and what its fabric looks like."""

from __future__ import annotations

from dataclasses import dataclass

from agents.wire import address
from agents.wire.packet import DEFAULT_UDP_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class NicConfig:
    """Who this NIC is and what the fabric looks like; the same for all hosts but for `host`."""

    host: int
    planes: int
    t0_groups: int
    hosts_per_t0: int
    t1s_per_plane: int
    payload_mtu: int = 4096  # payload bytes of a full packet
    block: int = address.DEFAULT_BLOCK
    udp_port: int = DEFAULT_UDP_PORT
    source_routed: bool = True  # False: the fabric hashes flows onto paths, and packets go without the outer header
    time_dilation: float = 1.0  # real rate / emulated rate
    real_rate_bps: int = 100_000_000_000  # of a port of the real fabric
    trimming: bool = True  # its switches cut payloads off instead of dropping packets

    def __post_init__(self) -> None:
        """Raises ValueError for a host that the fabric does not have."""
        if not 0 <= self.host < self.hosts:
            raise ValueError(f"host {self.host} is not one of 0..{self.hosts - 1}")

    @property
    def hosts(self) -> int:
        """Hosts in the whole fabric."""
        return self.t0_groups * self.hosts_per_t0
