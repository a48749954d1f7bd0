"""People inside a lab: Mininet's prompt over it, and programs run in its nodes."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.fabric import netns, plan
from testbed.lab import processes
from testbed.lab.mininet_view import prompt
from testbed.lab.running import RunningLab, exec_in, open_lab
from testbed.topology.errors import InputError

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]


def at_prompt(lab: RunningLab, folder: Path, capfd: pytest.CaptureFixture[str], *commands: str) -> str:
    script = folder / "commands"
    script.write_text("".join(f"{command}\n" for command in commands))
    prompt(lab, script=str(script))
    return "".join(capfd.readouterr())


def processes_in(lab: RunningLab) -> list[int]:
    return processes.of_lab(lab.name, processes.inodes_of(node.namespace for node in lab.plan.nodes.values()))


def test_hosts_ping_each_other_by_name(tiny: RunningLab, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = at_prompt(tiny, tmp_path, capfd, "h0 ping -c1 -W2 h3", "pingall")
    assert "PING fd6d:7263::4" in said
    assert said.count("1 packets transmitted, 1 received") == 1
    assert "*** Results: 0% dropped (12/12 received)" in said


def test_nodes_and_links_have_the_labs_names(
    tiny: RunningLab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    link = tiny.clos.links["p0t0-1:p0t1-0"]
    tiny.ports.take_down(link.b)
    try:
        said = at_prompt(tiny, tmp_path, capfd, "nodes", "links").splitlines()
    finally:
        tiny.ports.bring_up(link.b)
    assert "h0 h1 h2 h3 p0t0-0 p0t0-1 p0t1-0 p0t1-1 p1t0-0 p1t0-1 p1t1-0 p1t1-1" in said
    states = dict(line.rstrip().split(" ", 1) for line in said if ":" in line and line.rstrip().endswith(")"))
    assert states.keys() == tiny.clos.links.keys()
    assert {name for name, state in states.items() if state != "(OK OK)"} == {link.name}


def test_a_switch_with_a_dash_in_its_name_takes_commands(
    tiny: RunningLab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "flavors next-csid" in at_prompt(tiny, tmp_path, capfd, "p1t0-1 ip -6 route")


def test_shells_start_when_used_and_end_with_the_prompt(
    tiny: RunningLab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = processes_in(tiny)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and shells would inherit that
    try:
        said = at_prompt(
            tiny, tmp_path, capfd, "h0 echo shell $$", "py [n.name for n in net.values() if n.shell]", "h0 sleep 60 &"
        )
    finally:
        signal.signal(signal.SIGHUP, hangup)
    assert "['h0']" in said
    deadline = time.monotonic() + 3
    while processes_in(tiny) != before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_in(tiny) == before


def test_at_a_terminal_commands_are_typed_one_by_one(tiny: RunningLab) -> None:
    source = (
        "from testbed.lab.running import open_lab; from testbed.lab.mininet_view import prompt; "
        f"prompt(open_lab({tiny.name!r}))"
    )
    here, there = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", source], stdin=there, stdout=there, stderr=there) as process:
        os.close(there)
        seen = _read_until(here, "mrclab> ")
        os.write(here, b"h1 ping -c1 -W2 h2\n")
        seen = _read_until(here, "mrclab> ")
        os.write(here, b"exit\n")
        assert process.wait(timeout=10) == 0
    os.close(here)
    assert "1 packets transmitted, 1 received" in seen


def _read_until(fd: int, mark: str) -> str:
    seen = ""
    while not seen.endswith(mark):
        assert select.select([fd], [], [], 10)[0], f"waited for {mark!r} after {seen!r}"
        seen += os.read(fd, 1000).decode()
    return seen


def test_a_link_is_not_cut_behind_the_faults_back(
    tiny: RunningLab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = at_prompt(tiny, tmp_path, capfd, "link h0 p0t0-0 down", "links")
    assert "mrclab fault link-down h0:p0t0-0" in said
    assert "DOWN" not in said


def test_a_program_in_a_node_has_its_exit_code_and_output(tiny: RunningLab, capfd: pytest.CaptureFixture[str]) -> None:
    assert exec_in(tiny, "h2", ["ip", "-o", "link", "show", "eth1"]) == 0
    assert "eth1" in capfd.readouterr().out
    assert exec_in(tiny, "h2", ["sh", "-c", "exit 7"]) == 7
    assert exec_in(tiny, "h2", ["sh", "-c", "kill -9 $$"]) == 128 + signal.SIGKILL


def test_a_program_runs_in_the_nodes_namespace_and_we_do_not(tiny: RunningLab) -> None:
    own = Path("/proc/self/ns/net").stat().st_ino
    inode = netns.inode(plan.namespace_name(tiny.name, "p0t1-1"))
    test = f'[ "$(stat -Lc %i /proc/self/ns/net)" = {inode} ]'
    assert exec_in(tiny, "p0t1-1", ["sh", "-c", test]) == 0
    assert Path("/proc/self/ns/net").stat().st_ino == own


def test_unknown_nodes_programs_and_labs_are_told_with_the_nearest(tiny: RunningLab) -> None:
    with pytest.raises(InputError, match=r"lab fa-tiny has no node 'p0t0-7'; did you mean 'p0t0-.'\?"):
        exec_in(tiny, "p0t0-7", ["true"])
    with pytest.raises(InputError, match="there is no program 'no-such-program'"):
        exec_in(tiny, "h0", ["no-such-program"])
    with pytest.raises(InputError, match=r"lab fa-tiy is not up; did you mean 'fa-tiny'\?"):
        open_lab("fa-tiy")
