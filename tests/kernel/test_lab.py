"""A lab's life in the kernel: up, down, up again; refusals that touch nothing; and what a killed command leaves."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.fabric import bpf, netns, plan
from testbed.fabric.netlink import KernelError
from testbed.lab import lifecycle, processes, state
from testbed.lab.agents import AgentGroup
from testbed.lab.running import exec_in, open_lab
from testbed.lab.verify import PathError, verify_paths
from testbed.topology import clos
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]

LabFile = Callable[[str, str], Path]


def up(path: Path) -> lifecycle.UpResult:
    return lifecycle.up(load_lab(path), path)


def left_of(name: str) -> list[str]:
    """Whatever of a lab can be found on the machine, by other means than the lab's own record."""
    found = [f"namespace {entry}" for entry in netns.names() if entry.startswith(f"{name}.")]
    if state.directory(name).exists():
        found.append(str(state.directory(name)))
    return found + [f"process {pid}" for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_of(pid, name)]


def _is_of(pid: int, name: str) -> bool:
    """An agent of that lab, by its log, or a launcher of agents that nobody waits for."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"agents.daemon" in words and processes.is_alive(pid):
            at_home = os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            log = os.readlink(f"/proc/{pid}/fd/2")
            return log.startswith(f"{state.directory(name)}/") or (at_home and parent == "1")
    return False


@contextlib.contextmanager
def command(path: Path) -> Iterator[subprocess.Popen[str]]:
    """`up` as a process of its own."""
    argv = [sys.executable, "-m", "tests.kernel.lab_command", str(path)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def wait_for_phase(process: subprocess.Popen[str], phase: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(phase):
            return
    pytest.fail(f"the command ended before phase {phase}: {process.stderr.read() if process.stderr else ''}")


def test_up_proves_every_path_and_down_leaves_nothing(lab_file: LabFile) -> None:
    result = up(lab_file("tiny", "fa-life"))
    assert (result.hosts, result.switches, result.links) == (4, 8, 16)
    assert result.paths_verified == 2 * 2 * 2  # ordered pairs of T0 groups, planes, T1s
    assert list(result.seconds) == ["total", "namespaces", "links", "ports", "read_back", "agents", "paths"]
    recorded = state.require_up("fa-life")
    assert len(recorded.programs) == 2
    assert all(map(bpf.is_loaded, recorded.programs))
    assert all(map(bpf.map_is_there, recorded.maps.values()))
    assert lifecycle.status("fa-life").healthy

    gone = lifecycle.down("fa-life")
    assert (gone.was_there, gone.namespaces, gone.processes) == (True, 12, 4)
    assert left_of("fa-life") == []
    assert not any(map(bpf.is_loaded, recorded.programs))
    assert not any(map(bpf.map_is_there, recorded.maps.values()))


def test_down_of_what_is_not_there_does_nothing() -> None:
    assert not lifecycle.down("fa-never").was_there
    assert left_of("fa-never") == []


def test_up_twice_is_no_error_and_changes_nothing(lab_file: LabFile) -> None:
    path = lab_file("tiny", "fa-twice")
    first = up(path)
    pids = state.require_up("fa-twice").agents
    again = up(path)
    assert again.already_up
    assert again.seconds == first.seconds
    assert state.require_up("fa-twice").agents == pids
    assert lifecycle.status("fa-twice").healthy


def test_another_file_of_the_same_name_is_refused_and_touches_nothing(lab_file: LabFile, tmp_path: Path) -> None:
    path = lab_file("tiny", "fa-other")
    up(path)
    other = tmp_path / "elsewhere" / "fa-other.yaml"
    other.parent.mkdir()
    other.write_text(path.read_text())
    before = state.require_up("fa-other")
    with pytest.raises(InputError, match=re.escape(f"lab fa-other is up already, from {path}")):
        up(other)
    path.write_text(path.read_text().replace("t1s_per_plane: 2", "t1s_per_plane: 1"))
    with pytest.raises(InputError, match="has changed since; mrclab down fa-other"):
        up(path)
    assert state.require_up("fa-other") == before
    assert lifecycle.status("fa-other").healthy


def test_a_foreign_namespace_is_refused_and_left_alone(lab_file: LabFile) -> None:
    netns.create("fa-foreign.h1", {})
    try:
        inode = netns.inode("fa-foreign.h1")
        with pytest.raises(InputError, match=r"namespace fa-foreign\.h1 exists and is not ours"):
            up(lab_file("tiny", "fa-foreign"))
        assert not lifecycle.down("fa-foreign").was_there
        assert netns.inode("fa-foreign.h1") == inode
        assert left_of("fa-foreign") == ["namespace fa-foreign.h1"]
    finally:
        netns.remove("fa-foreign.h1")


def test_a_machine_with_too_few_open_files_is_told_how_many(lab_file: LabFile) -> None:
    path = lab_file("demo", "fa-files")
    limited = ["prlimit", "--nofile=128:128", sys.executable, "-m", "tests.kernel.lab_command", str(path)]
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run(limited, capture_output=True, text=True, cwd=root, check=False)
    assert ended.returncode == 3
    assert ended.stderr == ("264 open files, 128 are allowed (for 8 hosts, 24 switches and 64 links); ulimit -n 264\n")
    assert left_of("fa-files") == []


def test_a_low_soft_limit_of_open_files_is_raised(lab_file: LabFile) -> None:
    path = lab_file("demo", "fa-files")
    limited = ["prlimit", "--nofile=64:4096", sys.executable, "-m", "tests.kernel.lab_command", str(path)]
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run(limited, capture_output=True, text=True, cwd=root, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert lifecycle.status("fa-files").healthy


def test_down_ends_what_the_user_left_running_in_a_node(lab_file: LabFile) -> None:
    up(lab_file("tiny", "fa-busy"))
    with netns.inside("fa-busy.h0"):
        loop = "trap '' TERM; echo deaf; while :; do sleep 0.01; done"
        stubborn = subprocess.Popen(["sh", "-c", loop], stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    with stubborn.stdout:
        assert stubborn.stdout.readline() == b"deaf\n"
    assert lifecycle.down("fa-busy").processes == 5 or stubborn.wait() < 0
    assert stubborn.wait(timeout=1) == -signal.SIGKILL
    assert left_of("fa-busy") == []


def test_down_and_status_of_a_damaged_lab(lab_file: LabFile) -> None:
    path = lab_file("tiny", "fa-damaged")
    up(path)
    agent = state.require_up("fa-damaged").agents["h2"]
    os.kill(agent, signal.SIGKILL)
    netns.remove("fa-damaged.p0t1-0")
    deadline = time.monotonic() + 3
    while processes.is_alive(agent) and time.monotonic() < deadline:
        time.sleep(0.01)
    found = lifecycle.status("fa-damaged")
    assert not found.healthy
    assert found.agents_dead == ["h2"]
    assert found.namespaces_missing == ["fa-damaged.p0t1-0"]
    lifecycle.down("fa-damaged")
    assert left_of("fa-damaged") == []


def test_a_process_that_has_an_agents_number_is_not_taken_for_the_agent(lab_file: LabFile) -> None:
    up(lab_file("tiny", "fa-number"))
    recorded = state.require_up("fa-number")
    recorded.agents["h1"] = os.getpid()
    recorded.save()
    assert lifecycle.status("fa-number").agents_dead == ["h1"]


def test_down_does_not_wait_for_those_who_read_the_ports_counters(lab_file: LabFile) -> None:
    up(lab_file("tiny", "fa-reader"))
    with open_lab("fa-reader") as lab:
        port_map = lab.port_map
        lab.kernel.close()
        gone = lifecycle.down("fa-reader")
        assert os.getpid() in gone.readers
        assert left_of("fa-reader") == []
        port_map.counters(100)  # what is in memory stays readable


def test_status_names_what_is_not_as_planned(lab_file: LabFile) -> None:
    up(lab_file("tiny", "fa-bent"))
    with netns.inside("fa-bent.h0"):
        subprocess.run(["ip", "link", "set", "eth0", "mtu", "1500"], check=True)
    assert lifecycle.status("fa-bent").differences == ["h0: interfaces: eth0: mtu is 1500, planned 4400"]


def test_two_commands_keep_apart(lab_file: LabFile) -> None:
    path = lab_file("tiny", "fa-lock")
    with command(path) as first:
        wait_for_phase(first, "namespaces")
        with pytest.raises(InputError, match=rf"lab fa-lock is busy: mrclab up \(pid {first.pid}\)"):
            lifecycle.down("fa-lock")
        assert first.wait() == 0
    assert lifecycle.status("fa-lock").healthy


@pytest.mark.parametrize("phase", ["namespaces", "links", "ports", "agents"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_takes_everything_back(lab_file: LabFile, phase: str, number: signal.Signals) -> None:
    with command(lab_file("tiny", "fa-int")) as process:
        wait_for_phase(process, phase)
        process.send_signal(number)
        assert process.wait() == 130
    assert left_of("fa-int") == []


def test_an_interrupt_during_down_ends_the_command_when_all_is_gone(lab_file: LabFile) -> None:
    """It was swallowed: a command that takes one lab of several down went on with the next one."""
    up(lab_file("tiny", "fa-down"))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
    over = threading.Event()
    other = threading.Thread(target=over.wait)  # the kernel gives it what the main thread has blocked
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lifecycle.down("fa-down", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    finally:
        over.set()
        other.join()
        signal.signal(signal.SIGINT, before)
    assert left_of("fa-down") == []


def _kill_and_come_back(path: Path, delay_s: float) -> None:
    with command(path) as process:
        wait_for_phase(process, "namespaces 1/")
        time.sleep(delay_s)
        process.kill()
        process.wait()
    lifecycle.down(path.stem)
    assert left_of(path.stem) == []


def test_a_killed_up_leaves_nothing_after_down(lab_file: LabFile, rng: random.Random) -> None:
    path = lab_file("tiny", "fa-kill")
    for _ in range(4):
        _kill_and_come_back(path, rng.uniform(0, 0.4))
    assert up(path).paths_verified == 8


@pytest.mark.full
@pytest.mark.timeout(600)
def test_20_killed_ups_leave_nothing_after_down(lab_file: LabFile, rng: random.Random) -> None:
    path = lab_file("tiny", "fa-kill")
    for _ in range(20):
        _kill_and_come_back(path, rng.uniform(0, 0.5))
    assert up(path).paths_verified == 8


def test_a_killed_down_is_finished_by_the_next(lab_file: LabFile, rng: random.Random) -> None:
    path = lab_file("tiny", "fa-half")
    source = "from testbed.lab import lifecycle; print(flush=True); lifecycle.down('fa-half')"
    for _ in range(3):
        up(path)
        with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0, 0.1))
            process.kill()
        lifecycle.down("fa-half")
        assert left_of("fa-half") == []


def test_up_mends_what_a_killed_up_left(lab_file: LabFile) -> None:
    path = lab_file("tiny", "fa-again")
    with command(path) as process:
        wait_for_phase(process, "ports")
        process.kill()
        process.wait()
    with pytest.raises(InputError, match=r"lab fa-again is only half there \(making\)"):
        open_lab("fa-again")
    assert up(path).paths_verified == 8


def test_a_wrong_path_is_found_by_the_counters(lab_file: LabFile) -> None:
    """Plane 0 of T0 0 sends what is for T1 0 to T1 1, which knows the way and forwards it: the probes are answered."""
    up(lab_file("tiny", "fa-bent2"))
    with open_lab("fa-bent2") as lab, AgentGroup.of(lab.dir, lab.hosts) as agents:
        assert verify_paths(lab.clos, lab.kernel, agents, lambda done, of: None) == 8
        to_t1 = {route.dst: route for route in lab.plan.nodes["p0t0-0"].routes if route.device.startswith("p0t1")}
        first, second = sorted(to_t1)
        assert (
            exec_in(
                lab,
                "p0t0-0",
                ["ip", "-6", "route", "replace", first, "via", to_t1[second].via, "dev", to_t1[second].device],
            )
            == 0
        )
        with pytest.raises(PathError, match=r"p0t1-0 counted|no answer over h0 p0t0-0 p0t1-0"):
            verify_paths(lab.clos, lab.kernel, agents, lambda done, of: None)


def test_errors_of_the_kernel_name_node_and_object(lab_file: LabFile) -> None:
    up(lab_file("tiny", "fa-names"))
    with open_lab("fa-names") as lab:
        with pytest.raises(KernelError, match="h0: device eth9 down: "):
            lab.ports.take_down(clos.Port("h0", "eth9", 9999))
        lab.kernel.close()
        netns.remove(plan.namespace_name("fa-names", "h1"))
        with pytest.raises(KernelError, match=r"h1: its namespace fa-names\.h1 does not exist"):
            lab.ports.take_down(clos.Port("h1", "eth0", 102))
