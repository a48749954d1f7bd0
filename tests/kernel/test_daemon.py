"""agents.daemon as a whole: two agents, one per namespace, joined by two veths that stand for two planes.

    h0 (rwa<pid>) eth0 ---- eth0 h1 (rwb<pid>)      one T0 group, so that a path has no T1; nobody looks at the
                  eth1 ---- eth1                    outer address, the far end of the wire takes what comes
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cable import Cable, wait_until

from agents.wire import ev
from testbed.lab.agents import AgentClient, AgentError, AgentGroup, AgentRefusedError, stop

pytestmark = pytest.mark.kernel

HOSTS = {"h0": "a", "h1": "b"}
MESSAGE_BYTES = 32 << 10
NS_PER_S = 1_000_000_000


def launch_spec(cable: Cable, run_dir: Path) -> dict[str, Any]:
    return {
        "lab": "rw",
        "nic": {"planes": 2, "t0_groups": 1, "hosts_per_t0": 2, "t1s_per_plane": 1, "time_dilation": 5000.0},
        "agents": [
            {
                "name": name,
                "host": number,
                "netns": cable.path(end),
                "socket": str(run_dir / "agents" / f"{name}.sock"),
                "log": str(run_dir / "agents" / f"{name}.log"),
                "ports": [
                    {"ifname": port.ifname, "mac": port.mac, "gateway_mac": port.gateway_mac}
                    for port in cable.specs(end)
                ],
            }
            for number, (name, end) in enumerate(HOSTS.items())
        ],
    }


def launch(spec: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agents.daemon"],
        input=spec if isinstance(spec, str) else json.dumps(spec),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Pair:
    """Two agents, and a flow from h0 to h1."""

    def __init__(self, cable: Cable, run_dir: Path) -> None:
        self.cable = cable
        self.run_dir = run_dir
        done = launch(launch_spec(cable, run_dir))
        assert done.returncode == 0, done.stderr
        self.pids: dict[str, int] = json.loads(done.stdout)["pids"]
        self.agents = AgentGroup.of(run_dir, HOSTS)
        self.sender: dict[str, Any] = {}
        self.receiver: dict[str, Any] = {}

    def connect(self, **options: Any) -> None:
        """A queue pair at each end."""
        self.sender = self.agents["h0"].call("qp-create", peer=1, options=options)
        self.receiver = self.agents["h1"].call("qp-create", peer=0, options=options, region_bytes=16 * MESSAGE_BYTES)
        for host, own, far in (("h0", self.sender, self.receiver), ("h1", self.receiver, self.sender)):
            self.agents[host].call("qp-connect", qpn=own["qpn"], remote_qpn=far["qpn"], remote_psn=far["psn"])

    def flow(self, **offer: Any) -> None:
        """Start write_bw."""
        common = {"kind": "write_bw", "message_bytes": MESSAGE_BYTES, "seed": 7}
        self.agents["h1"].call("workload-start", role="receive", qpn=self.receiver["qpn"], **common)
        remote = {name: self.receiver[name] for name in ("address", "rkey", "size")}
        self.agents["h0"].call("workload-start", role="send", qpn=self.sender["qpn"], **common, **remote, **offer)

    def report(self, host: str) -> dict[str, Any]:
        """What the workload of a host has done."""
        workload: dict[str, Any] = self.agents[host].call("workload-status")["workloads"][0]
        return workload

    def received_bytes(self) -> int:
        count: int = self.report("h1")["bytes_delivered"]
        return count

    def finish(self) -> None:
        """Stop the sender, wait until all is acknowledged, and hold both ends' counts against one another."""
        self.agents["h0"].call("workload-stop")
        wait_until(lambda: self.report("h0")["drained"], 20)
        sent, got = self.report("h0"), self.report("h1")
        assert sent["failure"] is None
        assert got["bytes_wrong"] == got["messages_unexpected"] == 0
        assert got["bytes_delivered"] == sent["bytes_completed"] == sent["bytes_posted"]

    def close(self) -> None:
        self.agents.close()
        stop(self.run_dir, HOSTS)


@pytest.fixture
def cable() -> Iterator[Cable]:
    cable = Cable()
    try:
        yield cable
    finally:
        cable.remove()


@pytest.fixture
def pair(cable: Cable, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(cable, tmp_path)
    try:
        yield pair
    finally:
        pair.close()


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]


def test_more_than_a_megabyte_arrives_verified_and_over_both_planes(pair: Pair) -> None:
    pair.connect()
    pair.flow()
    wait_until(lambda: pair.received_bytes() >= 2 << 20, 20)
    pair.finish()
    totals = pair.agents["h1"].call("collect")["totals"]
    assert totals["socket_drops"] == 0
    assert totals["packets_refused"] == {}
    shares = [port["packets_received"] for port in totals["ports"]]
    assert min(shares) > 0.4 * sum(shares)
