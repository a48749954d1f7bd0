"""agents.daemon as a whole: two agents, one per namespace, joined by two veths that stand for two planes.

h0 (end a)    eth0 ---- eth0 h1 (end b)         one T0 group, so that a path has no T1; nobody looks at the
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
from testbed.lab import processes
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
        common: dict[str, Any] = {"kind": "write_bw", "message_bytes": MESSAGE_BYTES, "seed": 7}
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


def test_probes_tell_which_paths_answer(pair: Pair) -> None:
    evs = [ev.make(plane, 0) for plane in (0, 1)]
    results = pair.agents["h0"].call("probe", peer=1, evs=evs)["results"]
    assert [(one["ev"], one["answered"]) for one in results] == [(evs[0], True), (evs[1], True)]
    assert all(one["rtt_ns"] > 0 for one in results)
    pair.cable.set_link("b", 1, "down")
    results = pair.agents["h0"].call("probe", peer=1, evs=evs, timeout_ns=NS_PER_S // 5)["results"]
    assert [one["answered"] for one in results] == [True, False]


def test_a_plane_that_goes_down_and_comes_back_is_told_and_costs_no_byte(pair: Pair) -> None:
    pair.connect()
    pair.flow(load_bps=20_000_000)
    wait_until(lambda: pair.received_bytes() > 4 * MESSAGE_BYTES, 20)
    for _ in range(3):
        for state in ("down", "up"):
            pair.cable.set_link("b", 1, state)
            before = pair.received_bytes()
            wait_until(lambda: pair.received_bytes() > before + 8 * MESSAGE_BYTES, 20)  # noqa: B023
    pair.finish()
    events = pair.agents["h0"].call("collect")["events"]
    seen = [(one["port"], one["up"]) for one in events if one["kind"] == "CarrierChanged"]
    assert seen == [(1, False), (1, True)] * 3
    assert not [one for one in events if one["kind"] == "QpFailed"]


def test_the_tenth_flap_in_five_seconds_is_seen_long_before_netlink_would_tell(pair: Pair) -> None:
    """Linkwatch holds a carrier event back for up to a second after another one; here a tenth of that is enough."""
    pair.connect()
    pair.flow(load_bps=20_000_000)
    wait_until(lambda: pair.received_bytes() > 0, 20)
    edges: list[int] = []
    for _ in range(10):
        for state in ("down", "up"):
            pair.cable.set_link("b", 1, state)
            edges.append(time.monotonic_ns())
            end = edges[-1] + NS_PER_S // 4
            wait_until(lambda: time.monotonic_ns() > end)  # noqa: B023
    for answer in pair.agents.call("collect").values():
        seen = [one["now_ns"] for one in answer["events"] if one["kind"] == "CarrierChanged"]
        assert len(seen) == len(edges)
        assert max(told - made for told, made in zip(seen, edges, strict=True)) < NS_PER_S // 10
    pair.finish()


def test_samples_and_counts_agree_with_what_was_delivered(pair: Pair) -> None:
    pair.connect()
    pair.agents.call("sample-interval", interval_ns=10_000_000)
    pair.flow(load_bps=20_000_000)
    wait_until(lambda: pair.received_bytes() > 20 * MESSAGE_BYTES, 20)
    pair.finish()
    delivered = pair.received_bytes()
    samples: list[dict[str, Any]] = []

    def last_sample_has_all() -> bool:
        samples[:] = pair.agents["h1"].call("collect")["samples"]
        return bool(samples) and samples[-1]["bytes_received"] == delivered

    wait_until(last_sample_has_all)
    assert sum(samples[-1]["bytes_received_by_port"]) == delivered
    assert samples[-1]["evs"] == {"GOOD": 2}
    times = [one["t_ns"] for one in samples]
    assert times == sorted(set(times))
    beats = {time_ns // 10_000_000 for time_ns in times}
    assert len(beats) == len(times), "two samples in one beat"
    assert len(pair.agents["h1"].call("ev-map", qpn=pair.receiver["qpn"])["evs"]) == 2


def test_the_offered_load_is_what_arrives(pair: Pair) -> None:
    """10 Mb/s offered on 40 Mb/s of links, for 100 messages' time: between 95 and 101 messages."""
    pair.connect()
    load_bps = 10_000_000
    start = time.monotonic_ns() + NS_PER_S // 20
    stop_at = start + 100 * MESSAGE_BYTES * 8 * NS_PER_S // load_bps
    pair.flow(load_bps=load_bps, start_at_ns=start, stop_at_ns=stop_at)
    wait_until(lambda: pair.report("h0")["drained"], 20)
    pair.finish()
    report = pair.report("h0")
    assert report["messages_posted"] + report["messages_given_up"] in (100, 101)
    assert report["messages_posted"] >= 95
    assert report["first_post_ns"] >= start


@pytest.mark.parametrize("stays", ["connected", "in the middle of a request", "deaf for its answer"])
def test_a_client_that_hangs_does_not_stop_traffic(pair: Pair, stays: str) -> None:
    pair.connect()
    pair.agents.call("sample-interval", interval_ns=5_000_000)
    pair.flow(load_bps=20_000_000)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hung:
        hung.connect(str(pair.run_dir / "agents" / "h1.sock"))
        if stays != "connected":
            hung.sendall(b'{"op": "hello"}\n' * 3000 if stays == "deaf for its answer" else b'{"op": ')
        before = pair.received_bytes()
        wait_until(lambda: pair.received_bytes() > before + 20 * MESSAGE_BYTES, 20)
    pair.finish()


BAD_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"op": "fly"}, "no operation 'fly'; there are hello, probe, "),
    ({"op": 5}, "no operation 5"),
    ({"op": "hello", "colour": 1}, "hello takes no colour"),
    ({"op": "probe", "peer": 1}, "evs is missing"),
    ({"op": "probe", "peer": 1, "evs": []}, "evs has to be a list of 1..4096"),
    ({"op": "probe", "peer": 1, "evs": [True]}, "evs has to be a list of 1..4096"),
    ({"op": "probe", "peer": 9, "evs": [0]}, "host 9 is not one of 0..1"),
    ({"op": "probe", "peer": 1, "evs": [ev.make(0, 0), 0xE0000000]}, "EV 0xe0000000 names no path to host 1"),
    ({"op": "qp-create", "peer": "h1"}, "peer has to be a whole number, not 'h1'"),
    ({"op": "qp-create", "peer": 0}, "host 0 is this host"),
    ({"op": "qp-create", "peer": 1, "options": {"colour": 1}}, "no such option of a queue pair: colour"),
    ({"op": "qp-create", "peer": 1, "options": {"window_bytes": "big"}}, "window_bytes has to be a whole number"),
    ({"op": "qp-create", "peer": 1, "options": {"window_bytes": 0}}, "window_bytes is 0"),
    ({"op": "qp-create", "peer": 1, "region_bytes": 1 << 40}, "region_bytes is 1099511627776; it has to be in 1.."),
    ({"op": "qp-connect", "qpn": 99, "remote_qpn": 1, "remote_psn": 0}, "there is no queue pair 99"),
    ({"op": "qp-destroy", "qpn": 99}, "there is no queue pair 99"),
    ({"op": "ev-map", "qpn": 99}, "there is no queue pair 99"),
    ({"op": "workload-stop", "workload": 99}, "there is no workload 99"),
    ({"op": "collect", "limit": -1}, "limit is -1; it has to be in 0.."),
    ({"op": "sample-interval", "interval_ns": 1}, "1 ns between samples"),
]


@pytest.mark.parametrize(("request_", "error"), BAD_REQUESTS)
def test_what_makes_no_sense_is_refused_in_words(quiet_pair: Pair, request_: dict[str, Any], error: str) -> None:
    fields = dict(request_)
    with pytest.raises(AgentRefusedError) as refused:
        quiet_pair.agents["h0"].call(fields.pop("op"), **fields)
    assert str(refused.value).startswith(f"agent h0: {error}")
    assert quiet_pair.agents["h0"].call("hello")["qps"] == []


@pytest.fixture(scope="module")
def quiet_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A pair that tests only ask for what cannot be done."""
    cable = Cable()
    try:
        pair = Pair(cable, tmp_path_factory.mktemp("quiet"))
        try:
            yield pair
        finally:
            pair.close()
    finally:
        cable.remove()


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"role": "dance"}, "no workload 'write_bw' with role 'dance'"),
        ({"kind": "tea", "role": "send"}, "no workload 'tea'"),
        ({"role": "send"}, "a sender needs address, rkey, size"),
        ({"role": "receive", "message_bytes": 1 << 20}, "a region of 524288 bytes has no room"),
        ({"role": "receive", "qpn": 99}, "there is no queue pair 99"),
    ],
)
def test_workloads_that_cannot_be_are_refused(pair: Pair, fields: dict[str, Any], error: str) -> None:
    pair.connect()
    request = {"kind": "write_bw", "qpn": pair.receiver["qpn"], "message_bytes": MESSAGE_BYTES, "seed": 1, **fields}
    with pytest.raises(AgentRefusedError, match=error):
        pair.agents["h1"].call("workload-start", **request)


def test_a_destroyed_queue_pair_leaves_nothing_and_its_traffic_is_refused(pair: Pair) -> None:
    pair.connect(linear_retries=1, exponential_retries=0)
    pair.flow()
    wait_until(lambda: pair.received_bytes() > 0, 20)
    pair.agents["h1"].call("qp-destroy", qpn=pair.receiver["qpn"])
    assert pair.agents["h1"].call("hello")["qps"] == []
    wait_until(lambda: pair.report("h0")["failure"] is not None, 20)
    assert pair.report("h0")["drained"]
    failed = [one for one in pair.agents["h0"].call("collect")["events"] if one["kind"] == "QpFailed"]
    assert len(failed) == 1
    assert pair.agents["h1"].call("collect")["totals"]["packets_refused"].keys() == {"no-such-qp"}


def test_shutdown_leaves_nothing(cable: Cable, tmp_path: Path) -> None:
    pair = Pair(cable, tmp_path)
    sockets = [tmp_path / "agents" / f"{host}.sock" for host in HOSTS]
    assert all(path.exists() for path in sockets)
    assert (tmp_path / "agents").stat().st_mode & 0o777 == 0o700
    pair.connect()
    pair.flow()
    pair.close()
    assert not any(path.exists() for path in sockets)
    assert not any(map(is_running, pair.pids.values()))
    with pytest.raises(AgentError, match="agent h0 is not running"):
        AgentClient(sockets[0]).call("hello")
    assert (tmp_path / "agents" / "h0.log").read_text() == ""


def test_an_agent_that_does_not_react_is_ended_all_the_same(cable: Cable, tmp_path: Path) -> None:
    pair = Pair(cable, tmp_path)
    os.kill(pair.pids["h1"], 19)  # SIGSTOP
    stop(tmp_path, HOSTS, within_s=0.5)
    assert not any(map(is_running, pair.pids.values()))


def test_sigterm_ends_an_agent_in_good_order(pair: Pair) -> None:
    os.kill(pair.pids["h0"], 15)
    wait_until(lambda: not is_running(pair.pids["h0"]))
    assert not (pair.run_dir / "agents" / "h0.sock").exists()
    assert pair.agents["h1"].call("hello")["name"] == "h1"


def test_when_one_agent_cannot_start_none_does(cable: Cable, tmp_path: Path) -> None:
    spec = launch_spec(cable, tmp_path)
    spec["agents"][1]["ports"][0]["ifname"] = "eth9"
    done = launch(spec)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "agent h1: OSError: [Errno 19] No such device\n"
    assert not list((tmp_path / "agents").glob("*.sock"))


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("", "Expecting value"),
        ("[]", "launch spec: "),
        ({"lab": "rw", "agents": []}, "launch spec: 'nic' is missing"),
        ({"lab": "rw", "nic": {"colour": 1}, "agents": [{}]}, "launch spec: 'name' is missing"),
    ],
)
def test_a_launch_spec_that_makes_no_sense_is_refused_in_one_line(spec: object, error: str) -> None:
    done = launch(spec)
    assert done.returncode == 1
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == 1


def test_agents_do_not_outlive_a_launcher_that_dies_before_they_are_ready(cable: Cable, tmp_path: Path) -> None:
    """h1's log is a FIFO that nobody reads, so it never gets ready; the launcher is killed while it waits for it."""
    spec = launch_spec(cable, tmp_path)
    (tmp_path / "agents").mkdir()
    fifo = tmp_path / "agents" / "h1.log"
    os.mkfifo(fifo)
    launcher = subprocess.Popen(
        [sys.executable, "-m", "agents.daemon"],
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, processes.LAB_VARIABLE: tmp_path.name},
    )
    assert launcher.stdin is not None
    launcher.stdin.write(json.dumps(spec))
    launcher.stdin.close()
    wait_until(lambda: (tmp_path / "agents" / "h0.sock").exists(), 20)
    launcher.kill()
    launcher.wait()
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # h1 goes on now
    wait_until(lambda: not processes.of_lab(tmp_path.name, set()))
    os.close(reader)  # not before: h1 would wait for a reader for ever if it came to its log only now
    assert not list((tmp_path / "agents").glob("*.sock"))
