"""What a run puts on the wire, read by others: tcpdump takes it, scapy and tshark decode it, and every ICRC is right.

    h0 == (tap) == T0-0 == (tap) == T1-1 == T0-1 == h2      plane 0 of `tiny`; the second tap sees shifted uSIDs

A link flaps meanwhile, so that retransmissions, probes and port status are among the packets.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import NoPayload
from scapy.utils import rdpcap

from agents.wire.headers import WRITE_OPCODES, Opcode
from agents.wire.packet import parse
from testbed.chaos.runner import run_scenario
from testbed.chaos.scenario import load_scenario
from testbed.fabric import netns
from testbed.fabric.plan import namespace_name
from testbed.lab.running import RunningLab

pytestmark = pytest.mark.kernel

ETHERNET_BYTES = 14
ICRC_BYTES = 4
TAPS = {"at the host": ("h0", "eth0"), "in the fabric": ("p0t0-0", "p0t1-1")}
SCENARIO = """\
lab: any
duration: 1500 ms
warmup: 0 s
workloads:
  - {kind: write_bw, pairs: [[h0, h2], [h2, h0]], message: 32 KB, load: 10%}
faults:
  - {kind: link-down, target: "p0t0-0:p0t1-0", end: far, at: 300 ms, for: 300 ms}
  - {kind: link-down, target: "h2:p1t0-1", end: near, at: 900 ms, for: 200 ms}
"""
TSHARK_FIELDS = ["infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "udp.srcport"]


@contextlib.contextmanager
def tap(lab: RunningLab, node: str, interface: str, file: Path) -> Iterator[None]:
    """tcpdump on a node's port for as long as the block takes."""
    command = ["tcpdump", "-i", interface, "-Q", "inout", "-U", "-s", "0", "-w", str(file), "ip6 proto 41"]
    with netns.inside(namespace_name(lab.name, node)):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert any("listening on" in line for line in process.stderr)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)


@pytest.fixture(scope="module")
def captures(tiny: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The capture file of each tap, of one run."""
    folder = tmp_path_factory.mktemp("captures")
    (folder / "case.yaml").write_text(SCENARIO)
    files = {name: folder / f"{node}-{port}.pcap" for name, (node, port) in TAPS.items()}
    with contextlib.ExitStack() as stack:
        for name, (node, port) in TAPS.items():
            stack.enter_context(tap(tiny, node, port, files[name]))
        result = run_scenario(load_scenario(folder / "case.yaml"), tiny, folder / "out")
    assert all(flow["bytes_wrong"] == 0 and flow["bytes_delivered"] > 0 for flow in result.summary["flows"])
    return files


@pytest.mark.parametrize("place", TAPS)
def test_scapy_computes_the_same_icrc_for_every_whole_packet(captures: dict[str, Path], place: str) -> None:
    seen: Counter[int] = Counter()
    for frame in rdpcap(str(captures[place])):
        outer = frame[IPv6]
        inner = outer.payload
        bth = inner[BTH]
        assert (outer.nh, inner.nh, inner[UDP].dport, inner[UDP].chksum) == (41, 17, 4791, 0)
        data = bytes(outer)[: outer.plen + 40]
        assert len(data) == outer.plen + 40, "cut short"
        rebuilt = IPv6(data)
        carried = rebuilt[BTH].icrc
        rebuilt[BTH].icrc = None  # scapy computes it anew
        for layer in (rebuilt, rebuilt.payload, rebuilt[UDP], rebuilt[BTH]):
            layer.raw_packet_cache = None
        assert bytes(rebuilt)[-ICRC_BYTES:] == data[-ICRC_BYTES:], f"ICRC {carried:#x} of {frame.summary()}"
        assert not isinstance(bth.payload, NoPayload)
        seen[bth.opcode] += 1
    assert sum(seen[opcode] for opcode in WRITE_OPCODES) > 50
    assert seen[Opcode.SACK] > 10


@pytest.mark.parametrize("place", TAPS)
def test_tshark_reads_the_numbers_that_we_read(captures: dict[str, Path], place: str) -> None:
    command = ["tshark", "-r", str(captures[place]), "-T", "fields", "-E", "occurrence=l"]
    command += [part for field in TSHARK_FIELDS for part in ("-e", field)]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    ours = []
    for frame in rdpcap(str(captures[place])):
        packet = parse(bytes(frame)[ETHERNET_BYTES:])
        ours.append([str(packet.opcode), f"{packet.dest_qp:#08x}", str(packet.psn), str(packet.ev & 0xFFFF)])
    assert [line.split("\t") for line in shown] == ours


def test_the_usids_are_used_up_on_the_way_and_the_inner_packet_is_untouched(captures: dict[str, Path]) -> None:
    """A write of h0 that passes both taps: one uSID less behind T0, one hop less, and the same bytes inside."""
    inner: dict[str, dict[bytes, IPv6]] = {}
    for place, file in captures.items():
        outers = [frame[IPv6] for frame in rdpcap(str(file)) if frame[IPv6].payload.src == "fd6d:7263::1"]
        inner[place] = {bytes(outer.payload): outer for outer in outers}
    both = inner["at the host"].keys() & inner["in the fabric"].keys()
    assert len(both) > 20
    for content in both:
        at_host, in_fabric = inner["at the host"][content], inner["in the fabric"][content]
        assert at_host.hlim - in_fabric.hlim == 1
        before, after = at_host.dst.split("::")[0].split(":"), in_fabric.dst.split("::")[0].split(":")
        assert before[:2] == after[:2]
        assert before[3:] == after[2:]
