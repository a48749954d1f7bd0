"""Every kind of fault on a real lab: put in, seen, undone, and the kernel is what it was, to the last map entry.

    h0, h1 -- T0-0 -- T1-0, T1-1 -- T0-1 -- h2, h3      in each of two planes

A session takes a few kinds, drawn by its seed; `--full` takes all of them, alone, killed in the middle, and in twos.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.wire import ev as entropy
from testbed.chaos import by_hand
from testbed.chaos.kinds import KINDS
from testbed.fabric import bpf, netns
from testbed.fabric.observe import snapshot
from testbed.fabric.plan import HOOK_BLOCKS, namespace_name
from testbed.lab import lifecycle, state
from testbed.lab.agents import AgentError
from testbed.lab.capture import capture
from testbed.lab.repair import repair
from testbed.lab.running import RunningLab, open_lab
from testbed.lab.verify import verify_paths
from testbed.topology.errors import MissingError
from testbed.topology.labfile import load_lab
from tests.kernel.labs import lab_like

pytestmark = pytest.mark.kernel

LAB = "c2-kinds"
LINK = "p0t0-0:p0t1-1"
EV = entropy.make(0, 1)  # from h0 over LINK to the other rack
SAMPLE = 4

# kind -> its target here, and what becomes of a probe from h0 to h2 over LINK ("?": chance decides)
CASES: dict[str, tuple[str, str]] = {
    "link-down": (LINK, "lost"),
    "link-flap": (LINK, "lost"),
    "loss-of-light": (LINK, "lost"),
    "black-hole": (LINK, "lost"),
    "not-forwarding": ("switch p0t1-1", "lost"),
    "loss": (LINK, "?"),
    "ev-loss": (f"host h0 ev {EV:#x}", "?"),
    "plane-loss": ("plane 0", "?"),
    "corrupt": (LINK, "answered"),
    "corrupt-unseen": (LINK, "answered"),
    "rate-drop": (LINK, "answered"),
    "ecn-off": (LINK, "answered"),
    "ecn-mark-all": (LINK, "answered"),
    "trimming-off": (LINK, "answered"),
    "t0-power-loss": ("switch p0t0-0", "lost"),
    "t1-power-loss": ("switch p0t1-1", "lost"),
    "t1-reboot": ("switch p0t1-1", "lost"),
    "t0-transceiver": ("transceiver p0t0-0 0", "lost"),
    "nic-transceiver": ("transceiver h0", "lost"),
    "plane-down": ("plane 0", "lost"),
    "agent-pause": ("host h2", "lost"),
    "agent-restart": ("host h2", "lost"),
    "denylist-set": (LINK, "answered"),
}


def drawn(config: pytest.Config) -> list[str]:
    """All kinds, or a few that the seed of the session draws."""
    names = list(CASES)
    if config.getoption("--full"):
        return names
    return sorted(random.Random(config.getoption("--seed")).sample(names, SAMPLE))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", drawn(metafunc.config))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with lab_like("tiny", LAB, tmp_path_factory.mktemp("labs")) as running:
        yield running


@pytest.fixture(autouse=True)
def as_before(lab: RunningLab) -> Iterator[None]:
    """After each test the kernel is as before, ports' settings included, all agents answer, and paths work."""
    before = whole(lab)
    yield
    assert by_hand.active(lab) == []
    assert whole(lab) == before
    with lab.agents() as agents:
        agents.call("hello")
    assert probe(lab)


def whole(lab: RunningLab) -> Any:
    return snapshot(lab.kernel, lab.clos.nodes, lab.port_map)


def probe(lab: RunningLab) -> bool:
    """Is a probe from h0 to h2 over LINK answered? A port that was down needs a moment until its NIC knows."""
    with lab.agent("h0") as agent:
        for _ in range(20):
            (told,) = agent.call("probe", peer=2, evs=[EV], timeout_ns=100_000_000)["results"]
            if told["answered"]:
                return True
    return False


def probe_once(lab: RunningLab) -> bool:
    try:
        with lab.agent("h0") as agent:
            (told,) = agent.call("probe", peer=2, evs=[EV], timeout_ns=100_000_000)["results"]
    except AgentError:
        return False
    return bool(told["answered"])


def seen(lab: RunningLab, kind: str) -> None:
    """What a probe meets while the fault is in."""
    fate = CASES[kind][1]
    if fate == "lost":
        assert not probe_once(lab)
    elif fate == "answered":
        assert probe(lab)


def test_the_kinds_are_all_here_but_what_needs_netem() -> None:
    assert set(CASES) == {name for name, kind in KINDS.items() if not kind.needs_netem}


def test_injected_seen_and_undone(lab: RunningLab, kind: str) -> None:
    before = whole(lab)
    fault = by_hand.put(lab, kind, CASES[kind][0])
    assert [one.number for one in by_hand.active(lab)] == [fault.number]
    if kind not in ("agent-pause", "agent-restart", "denylist-set"):
        assert whole(lab) != before
    seen(lab, kind)
    by_hand.clear(lab, fault.number)


def test_cleared_after_the_one_who_put_it_in_was_killed(lab: RunningLab, kind: str) -> None:
    argv = [sys.executable, "-m", "testbed.cli", "fault", kind, *CASES[kind][0].split(), "--lab", LAB, "--for", "1 h"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        deadline = 200
        while not by_hand.active(lab) and deadline and process.poll() is None:
            deadline -= 1
            signal.sigtimedwait([], 0.05)
        process.kill()
    assert [fault.kind for fault in by_hand.active(lab)] == [kind]
    assert [fault.kind for fault in by_hand.clear(lab)] == [kind]


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_two_that_overlap(lab: RunningLab, kind: str, first_ends_first: bool, request: pytest.FixtureRequest) -> None:
    draw = random.Random(f"{request.config.getoption('--seed')} {kind} {first_ends_first}")
    other = draw.choice(list(CASES))
    first = by_hand.put(lab, kind, CASES[kind][0])
    between = whole(lab)
    second = by_hand.put(lab, other, CASES[other][0])
    if first_ends_first:
        by_hand.clear(lab, first.number)
        seen(lab, other)
        by_hand.clear(lab, second.number)
    else:
        by_hand.clear(lab, second.number)
        assert whole(lab) == between
        seen(lab, kind)
        by_hand.clear(lab, first.number)


def test_two_losses_on_one_port_each_count_while_they_stand(lab: RunningLab) -> None:
    port = lab.clos.links[LINK].a
    first = by_hand.put(lab, "loss", LINK, "near", {"loss": 0.125})
    second = by_hand.put(lab, "loss", LINK, "both", {"loss": 0.5})
    assert lab.ports.settings(port).loss == 0.5
    by_hand.clear(lab, first.number)
    assert lab.ports.settings(port).loss == 0.5
    by_hand.clear(lab, second.number)
    assert lab.ports.settings(port).loss == 0


def test_a_black_hole_counts_what_it_swallows(lab: RunningLab) -> None:
    port = lab.clos.links[LINK].a
    fault = by_hand.put(lab, "black-hole", LINK)
    before = lab.port_map.counters(port.ifindex)
    assert not probe_once(lab)
    after = lab.port_map.counters(port.ifindex)
    assert after.dropped_black_hole - before.dropped_black_hole >= 1
    assert after.last_tx_ns == before.last_tx_ns
    by_hand.clear(lab, fault.number)


def test_a_delay_without_netem_is_refused_before_anything_is_written(lab: RunningLab) -> None:
    try:
        fault = by_hand.put(lab, "delay", LINK)
    except MissingError as error:
        assert "netem" in str(error)
        assert by_hand.active(lab) == []
    else:
        by_hand.clear(lab, fault.number)


def test_repair_puts_back_what_was_taken_away_by_hand(lab: RunningLab) -> None:
    link = lab.clos.links[LINK]
    lab.ports.take_down(link.a)
    lab.tables.forget("p1t0-1")
    lab.ports.change(link.b, loss=0.5)
    os.kill(lab.agent_pids["h3"], signal.SIGKILL)
    while not dead(lab, "h3"):
        signal.sigtimedwait([], 0.02)
    done = repair(LAB)
    assert done.left == []
    assert done.agents_started == ["h3"]
    nodes = {text.split(":")[0] for text in done.mended}
    assert nodes == {"p0t0-0", "p1t0-1", "p0t1-1"}
    assert repair(LAB).mended == []


def tc(lab: RunningLab, node: str, *words: str) -> None:
    with netns.inside(namespace_name(LAB, node)):
        subprocess.run(["tc", *words], check=True, capture_output=True)


def test_repair_makes_the_queues_and_programs_of_a_port_anew(lab: RunningLab) -> None:
    link = lab.clos.links[LINK]
    tc(lab, "p0t0-0", "qdisc", "del", "dev", link.a.name, "root")
    tc(lab, "p0t1-1", "qdisc", "replace", "dev", link.b.name, "root", "pfifo", "limit", "1")
    tc(lab, "h0", "filter", "del", "block", str(HOOK_BLOCKS["ingress"]))
    tc(lab, "h1", "qdisc", "del", "dev", "eth1", "clsact")
    lab.port_map.change(lab.clos.ports("h1")[1][0].ifindex, loss=1.0)
    assert len(lifecycle.status(LAB).differences) >= 10  # of HTB alone each port has six objects
    done = repair(LAB)
    assert done.left == []
    assert {text.split(":")[0] for text in done.mended} == {"p0t0-0", "p0t1-1", "h0", "h1"}
    assert repair(LAB).mended == []


def test_repair_loads_programs_and_port_map_again_when_the_last_port_has_lost_them(
    lab_file: Callable[[str, str], Path],
) -> None:
    path = lab_file("tiny", "ch-bare")
    lifecycle.up(load_lab(path), path)
    with open_lab("ch-bare") as bare:
        for node in bare.clos.nodes:
            with netns.inside(namespace_name("ch-bare", node)):
                for port, _ in bare.clos.ports(node):
                    subprocess.run(["tc", "qdisc", "del", "dev", port.name, "clsact"], check=True)
    gone = state.require_up("ch-bare")
    deadline = 200
    while any(map(bpf.map_is_there, gone.maps.values())):
        deadline -= 1
        assert deadline, "somebody else holds the maps"
        signal.sigtimedwait([], 0.02)
    assert any("mrclab repair" in text for text in lifecycle.status("ch-bare").differences)
    done = repair("ch-bare")
    assert done.left == [] and any("programs" in text for text in done.mended)
    assert lifecycle.status("ch-bare").differences == []
    with open_lab("ch-bare") as whole_again, whole_again.agents() as agents:
        verify_paths(whole_again.clos, whole_again.kernel, agents, lambda done, of: None)
    lifecycle.down("ch-bare")


def dead(lab: RunningLab, host: str) -> bool:
    try:
        with lab.agent(host) as agent:
            agent.call("hello")
    except AgentError:
        return True
    return False


def test_a_capture_goes_on_when_its_port_was_off_for_a_while(lab: RunningLab, tmp_path: Path) -> None:
    path, enough = tmp_path / "link.pcapng", threading.Event()
    frames: list[int] = []

    def take() -> None:
        with path.open("wb") as file:
            frames.append(capture(lab, lab.clos.links[LINK], file, ended=enough.is_set)[0])

    taken = threading.Thread(target=take)
    taken.start()
    while taken.is_alive() and not (path.exists() and path.stat().st_size):
        signal.sigtimedwait([], 0.02)
    by_hand.clear(lab, by_hand.put(lab, "link-down", LINK).number)
    assert probe(lab)
    assert taken.is_alive()
    enough.set()
    taken.join()
    assert frames and frames[0] >= 2  # the probe and its answer


def test_a_capture_has_the_packets_of_both_directions_as_tshark_reads_them(lab: RunningLab, tmp_path: Path) -> None:
    path = tmp_path / "link.pcapng"
    with path.open("wb") as file:
        taken = threading.Thread(target=capture, args=(lab, lab.clos.links[LINK], file), kwargs={"count": 4})
        taken.start()
        while taken.is_alive():
            probe_once(lab)
        taken.join()
    fields = ["frame.packet_flags_direction", "frame.interface_description", "ipv6.nxt"]
    wanted = [part for field in fields for part in ("-e", field)]
    command = ["tshark", "-r", str(path), "-T", "fields", *wanted]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert len(rows) == 4
    assert {row[0] for row in rows} == {"0x00000001", "0x00000002"}
    assert {row[1] for row in rows} == {f"p0t0-0 {lab.clos.links[LINK].a.name}"}
    assert all(row[2].startswith("41") for row in rows)
