"""Elements of the fabric by the names that people use: links and switches of a Clos."""

from __future__ import annotations

from agents.clustermapper.element import Element
from agents.clustermapper.localise import Shape
from testbed.topology.clos import host_name, link_name, t0_name, t1_name
from testbed.topology.labspec import LabSpec

_NS_BITS = 8 * 10**9
_SLOW_QUEUES = 2  # a healthy port that marks everything holds one kmax; even the fastest of many probes meeting two


def shape_of(spec: LabSpec) -> Shape:
    """The fabric as Clustermapper sees it.

    Slow is a path whose fastest newest probe took longer than two full marking queues and the cables there and back.
    """
    delays_ns = 2 * (spec.delay.host + spec.delay.fabric + 2 * spec.delay.jitter)
    slowest_bps = min(spec.rates.host, spec.rates.fabric)
    return Shape(
        planes=spec.planes,
        t0_groups=spec.t0_groups,
        hosts_per_t0=spec.hosts_per_t0,
        t1s_per_plane=spec.t1s_per_plane,
        slow_ns=_SLOW_QUEUES * spec.queue.kmax * _NS_BITS // slowest_bps + delays_ns,
    )


def name_of(element: Element, hosts_per_t0: int) -> str:
    """`h3:p2t0-0`, `p0t0-1:p0t1-3`, `p0t0-1` or `p0t1-3`."""
    kind, plane, near, t1 = element
    if kind == "nic-t0":
        return link_name(host_name(near), t0_name(plane, near // hosts_per_t0))
    if kind == "t0-t1" and t1 is not None:
        return link_name(t0_name(plane, near), t1_name(plane, t1))
    return t0_name(plane, near) if kind == "t0" else t1_name(plane, near)
