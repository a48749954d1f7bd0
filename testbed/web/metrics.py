"""The lab for Prometheus: a table of metrics, each with its samples out of what `Following.counters` read.

Text format 0.0.4. Counters count from the making of the lab (ports) or of the queue pair (flows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Fields = dict[str, Any]
Samples = Iterable[tuple[Fields, float]]  # labels, value


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family."""

    name: str
    kind: Literal["counter", "gauge"]
    doc: str
    samples: Callable[[Fields], Samples]


def _of_ports(read: Callable[[Any], float]) -> Callable[[Fields], Samples]:
    def samples(seen: Fields) -> Iterator[tuple[Fields, float]]:
        for link, port, counters in seen["ports"]:
            yield {"node": port.node, "port": port.name, "plane": link.plane, "tier": link.tier}, read(counters)

    return samples


def _drops(seen: Fields) -> Iterator[tuple[Fields, float]]:
    for link, port, counters in seen["ports"]:
        labels = {"node": port.node, "port": port.name, "plane": link.plane, "tier": link.tier}
        for reason in ("queue", "control", "loss", "black_hole"):
            yield {**labels, "reason": reason}, getattr(counters, f"dropped_{reason}")


def _links(seen: Fields) -> Iterator[tuple[Fields, float]]:
    for link in dict.fromkeys(link for link, _, _ in seen["ports"]):
        labels = {"link": link.name, "plane": link.plane, "tier": link.tier}
        yield labels, float(link.name not in seen["down"])


def _of_flows(name: str) -> Callable[[Fields], Samples]:
    return lambda seen: [({"flow": flow}, counters[name]) for flow, counters, _, _ in seen["flows"]]


def _received(seen: Fields) -> Iterator[tuple[Fields, float]]:
    for flow, _, newest, _ in seen["flows"]:
        for sample in newest:
            for plane, received in enumerate(sample.bytes_by_plane):
                yield {"flow": flow, "plane": plane}, received


def _evs(seen: Fields) -> Iterator[tuple[Fields, float]]:
    for flow, _, _, states in seen["flows"]:
        for state, count in states.items():
            yield {"flow": flow, "state": state.lower()}, count


def _faults(seen: Fields) -> Iterator[tuple[Fields, float]]:
    for fault in seen["faults"]:
        if fault.until_ns is None:
            yield {"kind": fault.kind, "target": fault.target, "end": fault.end, "number": fault.number}, 1


METRICS = (
    Metric("mrclab_port_sent_bytes_total", "counter", "bytes into a port's queue", _of_ports(lambda port: port.bytes)),
    Metric("mrclab_port_sent_packets_total", "counter", "packets likewise", _of_ports(lambda port: port.packets)),
    Metric("mrclab_port_marked_packets_total", "counter", "packets marked CE", _of_ports(lambda port: port.marked)),
    Metric("mrclab_port_trimmed_packets_total", "counter", "packets trimmed", _of_ports(lambda port: port.trimmed)),
    Metric("mrclab_port_dropped_packets_total", "counter", "packets dropped, by reason", _drops),
    Metric(
        "mrclab_port_queue_bytes", "gauge", "depth that the last packet found", _of_ports(lambda port: port.depth_bytes)
    ),
    Metric("mrclab_link_up", "gauge", "whether the link has carrier", _links),
    Metric("mrclab_flow_received_bytes_total", "counter", "payload at the receiver, by plane", _received),
    Metric("mrclab_flow_sent_packets_total", "counter", "data packets sent", _of_flows("packets_sent")),
    Metric("mrclab_flow_lost_packets_total", "counter", "packets taken for lost", _of_flows("packets_lost")),
    Metric(
        "mrclab_flow_retransmitted_packets_total", "counter", "packets sent again", _of_flows("packets_retransmitted")
    ),
    Metric("mrclab_flow_evs", "gauge", "EVs of a flow's sender, by state", _evs),
    Metric("mrclab_fault_active", "gauge", "faults in force", _faults),
    Metric("mrclab_faults_total", "counter", "faults put in so far", lambda seen: [({}, len(seen["faults"]))]),
    Metric("mrclab_cpu_busy_ratio", "gauge", "share of all cores that is busy", lambda seen: [({}, seen["cpu"])]),
)


def render(seen: Fields | None) -> str:
    """The text; without a lab only that there is none."""
    lines = ["# HELP mrclab_lab_up whether the lab is up", "# TYPE mrclab_lab_up gauge"]
    lines.append(f"mrclab_lab_up {0 if seen is None else 1}")
    for metric in METRICS if seen is not None else ():
        assert seen is not None
        lines += [f"# HELP {metric.name} {metric.doc}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [f"{metric.name}{_labels(labels)} {float(value)!r}" for labels, value in metric.samples(seen)]
    return "\n".join(lines) + "\n"


def _labels(labels: Fields) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
