"""A lab like `tiny` in the kernel: as planned by the kernel's own and iproute2's word, and forwarding as planned.

        plane 0, plane 1:      p0t1-0    p0t1-1
                                  |  \\  /  |
                               p0t0-0    p0t0-1
                                /  \\      /  \\
                               h0   h1   h2   h3
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.wire import address
from testbed.fabric import counters, netns, observe, plan
from testbed.lab.running import RunningLab
from tests.kernel.probe_packets import ROCE_PORT, frame, packet_socket, tag_of

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]

CONTROL_DSCP = 46


def run_in(lab: RunningLab, node: str, *argv: str) -> str:
    with netns.inside(plan.namespace_name(lab.name, node)):
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def eventually(condition: Callable[[], bool], within_s: float = 3.0) -> bool:
    deadline = time.monotonic() + within_s
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return met


def icmp_errors_sent(lab: RunningLab, node: str) -> int:
    with netns.inside(plan.namespace_name(lab.name, node)):
        lines = Path("/proc/thread-self/net/snmp6").read_text().splitlines()
    values = dict(line.split() for line in lines)
    return int(values["Icmp6OutErrors"]) + int(values["Icmp6OutDestUnreachs"]) + int(values["Icmp6OutParmProblems"])


def test_the_kernel_holds_what_was_planned(tiny: RunningLab) -> None:
    assert observe.differences(tiny.plan, tiny.kernel) == []


@pytest.mark.parametrize(
    ("node", "meddle", "mend", "reason"),
    [
        ("h0", "ip link set eth0 mtu 1500", "ip link set eth0 mtu 4400", "mtu is 1500, planned 4400"),
        ("p0t0-0", "ip -6 route del blackhole default", "ip -6 route add blackhole default proto static", "missing"),
        (
            "h1",
            "sysctl -qw net.ipv6.conf.all.accept_dad=1",
            "sysctl -qw net.ipv6.conf.all.accept_dad=0",
            "is 1, planned 0",
        ),
        (
            "p0t1-0",
            "ip address add 2001:db8::1/64 dev p0t0-0 nodad",
            "ip address del 2001:db8::1/64 dev p0t0-0",
            "unexpected",
        ),
        (
            "p0t0-0",
            "tc class change dev h0 parent 1:ff classid 1:1 htb rate 1mbit ceil 20mbit burst 8825 cburst 8825 "
            "quantum 4414 prio 0",
            "tc class change dev h0 parent 1:ff classid 1:1 htb rate 20mbit ceil 20mbit burst 8825 cburst 8825 "
            "quantum 4414 prio 0",
            "rate_bps is 1000000, planned 20000000",
        ),
    ],
)
def test_meddling_is_seen(tiny: RunningLab, node: str, meddle: str, mend: str, reason: str) -> None:
    run_in(tiny, node, *meddle.split())
    try:
        found = observe.differences(tiny.plan, tiny.kernel)
        assert [item.node for item in found] == [node]
        assert reason in found[0].reason
    finally:
        run_in(tiny, node, *mend.split())
    assert [item for item in observe.differences(tiny.plan, tiny.kernel) if item.section != "classes"] == []


def test_iproute2_reads_the_same_sids(tiny: RunningLab) -> None:
    for switch in tiny.clos.switches:
        [sid] = [line for line in run_in(tiny, switch.name, "ip", "-6", "route").splitlines() if "seg6local" in line]
        assert "action End flavors next-csid lblen 32 nflen 16" in sid
        assert "dev sid0" in sid


def test_every_host_pings_every_other(tiny: RunningLab) -> None:
    for src, dst in itertools.permutations(tiny.clos.hosts, 2):
        target = plan.text(address.host_address(dst.index))
        assert " 0% packet loss" in run_in(tiny, src.name, "ping", "-c1", "-W2", target)


def test_ordinary_tools_take_the_announced_path_and_no_other(tiny: RunningLab) -> None:
    t1s = [switch.name for switch in tiny.clos.switches if switch.kind == "t1"]
    for src, dst in ((0, 2), (0, 3), (1, 2), (3, 1)):
        plane, t1 = plan.kernel_path_ev(tiny.clos, src, dst)
        before = counters.sid_counters(tiny.kernel, t1s)
        run_in(tiny, f"h{src}", "ping", "-c3", "-i0.01", "-W2", plan.text(address.host_address(dst)))
        after = counters.sid_counters(tiny.kernel, t1s)
        moved = {name: after[name] - before[name] for name in t1s if after[name] != before[name]}
        assert moved == {f"p{plane}t1-{t1}": 6}  # three there, three back


def test_iperf3_fills_the_line_and_no_more(tiny: RunningLab) -> None:
    with netns.inside(plan.namespace_name(tiny.name, "h3")):
        server = subprocess.Popen(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    try:
        listening = ["ss", "-6", "-H", "-l", "-t", "-n", "sport", "=", "5201"]
        assert eventually(lambda: run_in(tiny, "h3", *listening) != "")
        target = plan.text(address.host_address(3))
        report = json.loads(run_in(tiny, "h0", "iperf3", "--json", "-t1.5", "-O0.5", "-c", target))
    finally:
        server.kill()
        server.wait()
    share = report["end"]["sum_received"]["bits_per_second"] / tiny.spec.rates.host
    assert 0.5 < share < 1.05


def test_a_packet_too_big_for_the_pipe_is_told_and_a_4_kb_payload_is_not(tiny: RunningLab) -> None:
    target = plan.text(address.host_address(3))
    assert " 0% packet loss" in run_in(tiny, "h0", "ping", "-c1", "-W2", "-M", "do", "-s", "4200", target)
    with pytest.raises(subprocess.CalledProcessError):
        run_in(tiny, "h0", "ping", "-c1", "-W1", "-M", "do", "-s", "4400", target)


def test_a_quiet_lab_is_quiet(tiny: RunningLab) -> None:
    """No DAD, router solicitation or MLD: counters of a test have only what the test sent."""
    nodes = list(tiny.plan.nodes)
    before = counters.port_stats(tiny.kernel, nodes)
    time.sleep(1.5)  # what would be sent on its own has no event to wait for
    assert counters.port_stats(tiny.kernel, nodes) == before


def test_the_agents_packets_make_the_stack_say_nothing(tiny: RunningLab) -> None:
    with contextlib.closing(packet_socket(tiny, "h0", "eth0", receive=False)) as sender:
        before = icmp_errors_sent(tiny, "h3")
        received = counters.port_stats(tiny.kernel, ["h3"])["h3", "eth0"].rx_packets
        for _ in range(5):
            sender.send(frame(tiny, 0, 3, 0, 1, port=ROCE_PORT))
        assert eventually(lambda: counters.port_stats(tiny.kernel, ["h3"])["h3", "eth0"].rx_packets >= received + 5)
        assert icmp_errors_sent(tiny, "h3") == before
        # the same packets to another port do make it answer: so silence above is the filter's doing
        sender.send(frame(tiny, 0, 3, 0, 1, port=ROCE_PORT - 1))
        assert eventually(lambda: icmp_errors_sent(tiny, "h3") > before)


def test_packets_to_nowhere_vanish_without_a_word(tiny: RunningLab) -> None:
    switches = [switch.name for switch in tiny.clos.switches]
    before = sum(icmp_errors_sent(tiny, name) for name in switches)
    counted = counters.sid_counters(tiny.kernel, ["p0t0-0"])["p0t0-0"]
    unknown_t1 = address.sid_address(
        address.DEFAULT_BLOCK, address.usid(0, address.Kind.T0, 0), address.usid(0, address.Kind.T1, 99)
    )
    packet = bytearray(frame(tiny, 0, 3, 0, 0, port=ROCE_PORT))
    packet[38:54] = unknown_t1
    with contextlib.closing(packet_socket(tiny, "h0", "eth0", receive=False)) as sender:
        sender.send(packet)
    assert eventually(lambda: counters.sid_counters(tiny.kernel, ["p0t0-0"])["p0t0-0"] > counted)
    assert sum(icmp_errors_sent(tiny, name) for name in switches) == before


def test_control_overtakes_the_data_that_waits(tiny: RunningLab) -> None:
    """40 full data packets fill the T0's port; one control packet sent after them arrives long before the last."""
    data = [frame(tiny, 0, 3, 0, 0, port=ROCE_PORT, size=4200, tag=number) for number in range(40)]
    control = frame(tiny, 0, 3, 0, 0, port=ROCE_PORT, dscp=CONTROL_DSCP, tag=1000)
    before = counters.port_stats(tiny.kernel, ["p0t0-0"])["p0t0-0", "p0t1-0"]
    with (
        contextlib.closing(packet_socket(tiny, "h3", "eth0", receive=True)) as receiver,
        contextlib.closing(packet_socket(tiny, "h0", "eth0", receive=False)) as sender,
    ):
        receiver.settimeout(3)
        for packet in (*data, control):
            sender.send(packet)
        arrived = [tag_of(receiver.recv(9000)) for _ in range(41)]
    assert [tag for tag in arrived if tag != 1000] == list(range(40))
    assert arrived.index(1000) < 20
    after = counters.port_stats(tiny.kernel, ["p0t0-0"])["p0t0-0", "p0t1-0"]
    assert after.control.packets - before.control.packets == 1
    assert after.data.packets - before.data.packets == 40


def test_a_port_sends_no_faster_than_its_line(tiny: RunningLab) -> None:
    """60 packets take at least as long as 20 Mb/s says, less the burst; a machine that is busy only makes it longer."""
    packets, size = 60, 4200
    with (
        contextlib.closing(packet_socket(tiny, "h2", "eth1", receive=True)) as receiver,
        contextlib.closing(packet_socket(tiny, "h1", "eth1", receive=False)) as sender,
    ):
        receiver.settimeout(3)
        first_s = time.monotonic()
        for number in range(packets):
            sender.send(frame(tiny, 1, 2, 1, 1, port=ROCE_PORT, size=size, tag=number))
        bits = sum(8 * len(receiver.recv(9000)) for _ in range(packets))
        took_s = time.monotonic() - first_s
    burst_bits = 8 * plan.BURST_FRAMES * (tiny.spec.mtu + plan.ETHERNET_HEADER_BYTES)
    assert bits - 2 * burst_bits < 20_000_000 * took_s


def test_a_full_queue_drops_and_counts(tiny: RunningLab) -> None:
    """Two hosts at 20 Mb/s each into one 20 Mb/s port of a T0, more than its queue holds."""
    limit = tiny.spec.queue.size
    packets = 2 * limit // 4300
    port = tiny.clos.links["h0:p0t0-0"].a
    before = tiny.port_map.counters(port.ifindex).dropped_queue
    with contextlib.closing(packet_socket(tiny, "h0", "eth0", receive=False)) as sender:
        for number in range(packets):
            with contextlib.suppress(OSError):  # ENOBUFS: how a full queue of its own port shows to a sender
                sender.send(frame(tiny, 0, 3, 0, 0, port=ROCE_PORT, size=4200, tag=number))
    waiting = counters.port_stats(tiny.kernel, ["h0"])["h0", "eth0"].data
    assert waiting.backlog_bytes <= limit
    assert waiting.dropped == 0  # the program at the port says no before the leaf has to
    assert packets * 0.3 < tiny.port_map.counters(port.ifindex).dropped_queue - before < packets * 0.6
    assert eventually(lambda: counters.port_stats(tiny.kernel, ["h0"])["h0", "eth0"].data.backlog_bytes == 0, 10)
