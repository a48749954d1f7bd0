"""The ports of a lab as they are now: settings, counters and queues, for `status --ports` and for samples of a run.

A port is called by the way it sends: `p0t0-1>h4` is the port of T0 1 in plane 0 towards h4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from testbed.fabric.counters import port_stats
from testbed.fabric.portmap import PortCounters, Reader
from testbed.lab.running import RunningLab
from testbed.topology.clos import Clos, Port
from testbed.topology.port_settings import PortSettings


@dataclass(frozen=True, slots=True)
class PortStatus:
    """One port; `queue_bytes` waits now, `queue_max_bytes` was the most since somebody asked last."""

    name: str
    settings: PortSettings
    counters: PortCounters
    queue_bytes: int
    queue_max_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def named_ports(clos: Clos) -> Iterator[tuple[str, Port]]:
    """All ports of a lab with their names, those of a node together."""
    for node in clos.nodes:
        for port, link in clos.ports(node):
            yield f"{node}>{clos.peer(port, link).node}", port


def statuses(lab: RunningLab) -> list[PortStatus]:
    """All ports of a lab. The next call starts a new maximum of the queues."""
    stats = port_stats(lab.kernel, lab.clos.nodes)
    found = []
    for name, port in named_ports(lab.clos):
        queues = stats[port.node, port.name]
        found.append(
            PortStatus(
                name,
                lab.port_map.settings(port.ifindex, port.name),
                lab.port_map.counters(port.ifindex),
                queues.data.backlog_bytes + queues.control.backlog_bytes,
                lab.port_map.queue_max(port.ifindex, Reader.STATUS),
            )
        )
    return found
