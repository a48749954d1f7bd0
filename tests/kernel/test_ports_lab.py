"""Ports of a whole lab with agents: what waits at a NIC's own, and what runs and `status` tell of all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.chaos.runner import run_scenario
from testbed.chaos.scenario import load_scenario
from testbed.fabric.portmap import Reader
from testbed.lab.running import RunningLab
from testbed.topology.sizes import frame_bytes

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]

CONTROL_BYTES = 2_000  # what SACKs and probes may add to a queue while data waits
SCENARIO = """\
lab: {lab}
duration: 2 s
warmup: 500 ms
workloads:
  - {{kind: write_bw, pairs: [[h0, h3]], message: 32 KB, load: full}}
expect:
  bytes_wrong: 0
"""


def test_a_run_knows_its_ports_and_a_nic_lets_two_packets_wait(tiny: RunningLab, tmp_path: Path) -> None:
    """So that the path of a packet is chosen when it is sent, and not seven packets earlier."""
    scenario = tmp_path / "pt-ports.yaml"
    scenario.write_text(SCENARIO.format(lab=tiny.source_file))
    own = [port for port, _ in tiny.clos.ports("h0")]
    for port in own:
        tiny.port_map.queue_max(port.ifindex, Reader.STATUS)
    result = run_scenario(load_scenario(scenario), tiny, tmp_path / "out")
    longest = [tiny.port_map.queue_max(port.ifindex, Reader.STATUS) for port in own]
    assert min(longest) > frame_bytes() - 4  # without an immediate
    assert max(longest) <= 2 * frame_bytes() + CONTROL_BYTES

    told = result.summary["ports"]
    assert told["total"]["queue_max_bytes"] >= max(longest)
    flow = result.summary["flows"][0]
    assert told["total"]["packets"] >= 4 * flow["packets"]["sent"]  # a data packet crosses four ports
    samples = [json.loads(line) for line in result.paths["samples"].read_text().splitlines()]
    in_samples = sum(row["ports"].get("h0>p0t0-0", {}).get("bytes", 0) for row in samples if "ports" in row)
    assert in_samples > flow["bytes_delivered"] * 0.4  # one of two planes
    assert in_samples < tiny.port_map.counters(own[0].ifindex).bytes


def test_status_shows_what_ports_count(tiny: RunningLab) -> None:
    port = tiny.clos.links["p0t0-1:p0t1-0"].a
    tiny.ports.change(port, black_hole="all")
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "testbed.cli", "status", tiny.name, "--ports", "--json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        told = json.loads(ran.stdout)
        assert len(told["ports"]) == 2 * len(tiny.clos.links)
        one = told["ports"]["p0t0-1>p0t1-0"]
        assert one["settings"]["black_hole"] == "all"
        assert one["counters"]["packets"] == tiny.port_map.counters(port.ifindex).packets > 0
        assert one["queue_bytes"] == 0
        people = subprocess.run(
            [sys.executable, "-m", "testbed.cli", "status", tiny.name, "--ports"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert [line.split()[0] for line in people.stdout.splitlines() if ">" in line] == list(told["ports"])
        plain = subprocess.run(
            [sys.executable, "-m", "testbed.cli", "status", tiny.name], capture_output=True, text=True
        )
        assert plain.returncode == 4
        assert "differs: p0t0-1: ports: p0t1-0: black_hole is all, planned none" in plain.stdout
    finally:
        tiny.ports.restore(port)
