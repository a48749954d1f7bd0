"""Arithmetic of Clos fabrics for a given number of hosts: what they need, cost and lose (MRC paper, sections 1 and 2).

A switch has R ports at full NIC speed. With P planes each port is split into P, so that a switch has R' = P R ports and
a NIC one in each plane. Half of a T0's ports go down, half up (non-blocking); other tiers likewise. Upper tiers are
rounded up to what the tier below needs, with parallel links where a fabric is not full.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.wire import address
from testbed.topology.errors import InputError

MAX_RADIX = 4096


@dataclass(frozen=True, slots=True)
class Fabric:
    """One way to build it. Counts are of the whole fabric, all planes; None where it cannot be built.

    `links_up` are those between switches, each at the speed of a NIC port (1/planes of the NIC's). A layer is what all
    hosts need at full speed once: links between two tiers, or to the NICs; each takes two optics per link.
    """

    planes: int
    tiers: int
    radix: int  # ports of a switch as it is used: R x planes
    max_hosts: int
    switches: dict[str, int] | None  # by tier
    links_host: int | None
    links_up: int | None
    layers: int
    switches_per_host: float  # when full
    longest_path_switches: int
    paths: int  # between two hosts as far apart as can be, all planes
    link_loss_fraction: float  # of a T0's uplinks: what the loss of one T0-T1 link takes
    nic_link_loss_fraction: float  # of a host

    @property
    def fits(self) -> bool:
        """Whether there is room for all hosts."""
        return self.switches is not None


@dataclass(frozen=True, slots=True)
class Plan:
    """The same hosts on `planes` planes of two tiers, and on one plane of three."""

    hosts: int
    radix: int
    multi: Fabric
    single: Fabric

    @property
    def switch_ratio(self) -> float:
        """Switches per host, full fabrics: multi-plane / single-plane."""
        return self.multi.switches_per_host / self.single.switches_per_host

    @property
    def optics_ratio(self) -> float:
        """Optics per host at the same total speed."""
        return self.multi.layers / self.single.layers

    @property
    def addressable(self) -> bool:
        """Whether mrclab's uSIDs have room for the multi-plane fabric."""
        half = self.multi.radix // 2
        t0s = -(-self.hosts // half)
        return (
            self.multi.planes <= address.MAX_PLANES
            and t0s <= address.MAX_T0_PER_PLANE
            and half <= min(address.MAX_T1_PER_PLANE, address.MAX_DOWNLINKS_PER_T0)
        )


def plan(hosts: int, radix: int, planes: int) -> Plan:
    """Both ways for so many hosts and switches of so many ports at full NIC speed.

    Raises InputError when a number makes no sense, or the multi-plane fabric is too small for the hosts.
    """
    if not 2 <= radix <= MAX_RADIX or radix % 2:
        raise InputError(
            f"a radix of {radix} cannot be split into up and down", f"an even number from 2 to {MAX_RADIX}"
        )
    if not 1 <= planes <= address.MAX_PLANES:
        raise InputError(f"{planes} planes", f"write 1 to {address.MAX_PLANES}")
    if hosts < 1:
        raise InputError(f"{hosts} hosts", "write 1 or more")
    multi = fabric(hosts, radix, planes, tiers=2)
    if not multi.fits:
        needed = next(
            (more for more in range(planes + 1, address.MAX_PLANES + 1) if _most(radix * more, 2) >= hosts), 0
        )
        hint = f"{needed} planes would do" if needed else "take switches with more ports"
        raise InputError(f"{planes} planes of radix {radix} carry {multi.max_hosts} hosts, not {hosts}", hint)
    return Plan(hosts, radix, multi, fabric(hosts, radix, 1, tiers=3))


def fabric(hosts: int, radix: int, planes: int, tiers: int) -> Fabric:
    """A non-blocking Clos of two or three tiers."""
    ports = radix * planes
    half = ports // 2
    most = _most(ports, tiers)
    t0s = -(-hosts // half)
    switches: dict[str, int] | None = None
    if hosts <= most:
        # Of three tiers, T0s and T1s form pods of `half` each; T2s stand above all pods.
        counts = [t0s, -(-t0s // 2)] if tiers == 2 else [t0s, t0s, -(-t0s // 2)]
        switches = {f"T{tier}": planes * count for tier, count in enumerate(counts)}
    return Fabric(
        planes=planes,
        tiers=tiers,
        radix=ports,
        max_hosts=most,
        switches=switches,
        links_host=hosts * planes if switches else None,
        links_up=(tiers - 1) * t0s * half * planes if switches else None,
        layers=tiers,
        switches_per_host=(2 * tiers - 1) / radix,
        longest_path_switches=2 * tiers - 1,
        paths=planes * (half if tiers == 2 else half * half),
        link_loss_fraction=1 / half,
        nic_link_loss_fraction=1 / planes,
    )


def _most(ports: int, tiers: int) -> int:
    """The hosts of a full Clos: R'^2/2 with two tiers, R'^3/4 with three."""
    half = ports // 2
    return ports * (half if tiers == 2 else half * half)
