"""How large a lab is: what its spec alone says about the work and the memory that it takes."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.topology.labspec import LabSpec


@dataclass(frozen=True, slots=True)
class Size:
    """How large a lab is, by what it is made of. `pairs`: of T0 groups; `routers`: switches with routing daemons."""

    hosts: int
    switches: int
    ports: int
    routes: int
    pairs: int
    planes: int
    t1s_per_plane: int
    hashed: bool
    routers: int

    @classmethod
    def of(cls, spec: LabSpec) -> Size:
        """From its spec alone."""
        switches = spec.planes * (spec.t0_groups + spec.t1s_per_plane)
        links = spec.planes * spec.t0_groups * (spec.hosts_per_t0 + spec.t1s_per_plane)
        t1s = spec.planes * spec.t1s_per_plane
        far = spec.hosts * (spec.hosts - 1 if spec.source_routed else t1s)  # who has a route to each host
        return cls(
            hosts=spec.hosts,
            switches=switches,
            ports=2 * links,
            routes=far + 2 * links,
            pairs=spec.t0_groups * (spec.t0_groups - 1),
            planes=spec.planes,
            t1s_per_plane=spec.t1s_per_plane,
            hashed=not spec.source_routed,
            routers=switches if spec.routing == "bgp" else 0,
        )

    @property
    def nodes(self) -> int:
        """Namespaces."""
        return self.hosts + self.switches

    @property
    def links(self) -> int:
        """Cables."""
        return self.ports // 2
