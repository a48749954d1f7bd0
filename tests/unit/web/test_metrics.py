"""testbed.web.metrics: the text that Prometheus reads, and the names that promtool likes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from testbed.fabric.portmap import PortCounters
from testbed.measure.record import Fault, Received
from testbed.topology import clos
from testbed.topology.labspec import LabSpec
from testbed.web import metrics

_SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
BOARD = Path(metrics.__file__).with_name("board.json")


def seen() -> dict[str, Any]:
    """A reading of a small lab in which one link is cut and one flow goes."""
    model = clos.build(LabSpec(name="m", planes=2, t0_groups=2, hosts_per_t0=2, t1s_per_plane=2))
    counters = PortCounters(**{name: number for number, name in enumerate(PortCounters.__slots__)})
    sender = {"packets_sent": 5_000_000_000, "packets_lost": 2, "packets_retransmitted": 3}
    return {
        "ports": [(link, port, counters) for link in model.links.values() for port in link.ends()],
        "down": {"p0t0-0:p0t1-1"},
        "flows": [("h0>h2", sender, [Received(1, (10, 20))], {"GOOD": 3, "ASSUMED_BAD": 1})],
        "faults": [Fault(1, 'odd "kind"\\', "p0t0-0:p0t1-1", "near", 1, 2), Fault(2, "x", "y", "near", 1, 2, 3, 4)],
        "cpu": 0.25,
    }


def samples(text: str) -> dict[str, dict[str, float]]:
    """Metric -> labels -> value; every line has to be a comment or a sample."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _SAMPLE.fullmatch(line)
            assert match, line
            labels = found.setdefault(match[1], {})
            assert (match[2] or "") not in labels, f"twice: {line}"
            labels[match[2] or ""] = float(match[3])
    return found


def test_values_and_labels() -> None:
    found = samples(metrics.render(seen()))
    assert found["mrclab_lab_up"] == {"": 1}
    assert found["mrclab_link_up"]['link="p0t0-0:p0t1-1",plane="0",tier="t0-t1"'] == 0
    assert sum(found["mrclab_link_up"].values()) == 15
    assert found["mrclab_flow_received_bytes_total"] == {'flow="h0>h2",plane="0"': 10, 'flow="h0>h2",plane="1"': 20}
    assert found["mrclab_flow_sent_packets_total"] == {'flow="h0>h2"': 5_000_000_000}
    assert found["mrclab_flow_evs"] == {'flow="h0>h2",state="good"': 3, 'flow="h0>h2",state="assumed_bad"': 1}
    assert list(found["mrclab_fault_active"]) == [r'kind="odd \"kind\"\\",target="p0t0-0:p0t1-1",end="near",number="1"']
    assert found["mrclab_faults_total"] == {"": 2}
    assert len(found["mrclab_port_sent_bytes_total"]) == 32
    assert len(found["mrclab_port_dropped_packets_total"]) == 4 * 32


def test_without_a_lab_there_is_one_metric() -> None:
    assert samples(metrics.render(None)) == {"mrclab_lab_up": {"": 0}}


def test_names_are_as_promtool_wants_them() -> None:
    """Every metric has its HELP and TYPE before it, counters and only they end in _total, units are base units."""
    text = metrics.render(seen())
    for metric in metrics.METRICS:
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        assert not re.search(r"_(ms|kb|kbps|percent|count|sum|bucket)(_|$)", metric.name), metric.name
        head = f"# HELP {metric.name} {metric.doc}\n# TYPE {metric.name} {metric.kind}\n{metric.name}"
        assert head in text, metric.name


def test_the_board_asks_only_for_metrics_that_there_are() -> None:
    asked = set(re.findall(r"mrclab_[a-z_]+", BOARD.read_text()))
    there = {metric.name for metric in metrics.METRICS} | {"mrclab_lab_up"}
    assert asked and asked <= there, asked - there
    panels = json.loads(BOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
