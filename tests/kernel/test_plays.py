"""Plays, really run by ansible-runner: `provision` against this machine, interrupted ones, unreachable machines.

What `provision` writes goes to a folder of the test; what it changes in the kernel is put back. Its service is looked
at in a VM (tests/vm/run), since a machine that runs tests may have no systemd.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import play
from testbed.lab import lifecycle
from testbed.play import books, processes
from testbed.topology import library

pytestmark = [pytest.mark.kernel]

WITHIN_S = 120
STATE_THERE = Path("/var/lib/mrclab")  # where playbooks put files on the machines
BACKLOG = Path("/proc/sys/net/core/netdev_max_backlog")
A_WORD = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: a word}
"""
A_LONG_TASK = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.command: sleep 81.25
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """State and temporary files go to the test's folder, so that all that is left over is seen."""
    (tmp_path / "tmp").mkdir()
    places = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path)}
    return {**os.environ, **places, "NO_COLOR": "1"}


@pytest.fixture
def mrclab_play(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """Runs `mrclab play`; after the test there is nothing of it but its artifacts."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "testbed.cli", "play", *arguments]
        settings = {"env": environment, "cwd": tmp_path, "capture_output": True, **options}
        return subprocess.run(command, text=True, timeout=WITHIN_S, **settings)

    yield run
    assert not list((tmp_path / "tmp").iterdir())
    assert not (tmp_path / ".ansible").exists()


@pytest.fixture
def backlog() -> Iterator[None]:
    before = BACKLOG.read_text()
    yield
    BACKLOG.write_text(before)


def parsed(answer: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert answer.returncode == 0, answer.stderr + answer.stdout
    told = json.loads(answer.stdout)
    assert isinstance(told, dict)
    return told


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_provision_changes_nothing_the_second_time(
    mrclab_play: Callable[..., Any], tmp_path: Path, backlog: None
) -> None:
    made = [tmp_path / "sysctl.conf", tmp_path / "bin-mrclab", tmp_path / "completions" / "mrclab"]
    names = ("kernel_file", "mrclab_link", "mrclab_completion")
    places = [word for name, path in zip(names, made, strict=True) for word in ("-e", f"{name}={path}")]
    settings = ["-e", "packages_needs=[lab]", "-e", "page_service=false", *places]

    would = parsed(mrclab_play("provision", "--check", "--json", *settings))
    assert would["hosts"]["localhost"]["changed"] > 0
    assert not any(path.exists() for path in made)

    first = parsed(mrclab_play("provision", "--json", *settings))
    assert first["hosts"]["localhost"]["changed"] > 0
    assert all(path.exists() for path in made)
    assert int(BACKLOG.read_text()) == 10000

    second = parsed(mrclab_play("provision", "--json", *settings))
    assert second["hosts"]["localhost"]["changed"] == 0, [one for one in second["tasks"] if one["state"] == "changed"]


@pytest.fixture
def lab_file(tmp_path: Path) -> Iterator[Path]:
    """A lab file like `tiny`; the lab is down after the test."""
    path = tmp_path / "pl-tiny.yaml"
    path.write_text(library.find("topologies", "tiny").read_text())
    yield path
    lifecycle.down("pl-tiny")
    for copy in ("topologies/pl-tiny.yaml", "scenarios/pl-flap.yaml"):
        (STATE_THERE / copy).unlink(missing_ok=True)
    shutil.rmtree(STATE_THERE / "plays" / "pl-flap", ignore_errors=True)
    for folder in (*STATE_THERE.glob("*"), STATE_THERE):
        with contextlib.suppress(OSError):  # somebody else's are in it, or it is not there
            folder.rmdir()


def test_a_lab_that_a_play_brings_up_stays_up(mrclab_play: Callable[..., Any], lab_file: Path) -> None:
    there = parsed(mrclab_play("lab-up", "--json", "-e", f"lab_file={lab_file.name}"))
    assert [one["state"] for one in there["tasks"] if one["task"] == "Bring the lab up"] == ["changed"]
    found = lifecycle.status("pl-tiny")
    assert found.healthy and found.agents_alive == 4


@pytest.mark.full
def test_a_scenario_is_run_and_its_report_fetched(
    mrclab_play: Callable[..., Any], lab_file: Path, tmp_path: Path
) -> None:
    flap = "faults:\n  - {kind: link-flap, target: 'p0t0-0:p0t1-1', at: 2 s, for: 500 ms}\n"
    traffic = "duration: 4 s\nworkloads:\n  - {kind: write_bw, pairs: [[h0, h3]], load: 10%}\n"
    scenario = written(tmp_path / "pl-flap.yaml", f"lab: pl-tiny\n{traffic}{flap}expect:\n  bytes_wrong: 0\n")
    parsed(mrclab_play("lab-up", "--json", "-e", f"lab_file={lab_file}"))
    again = parsed(mrclab_play("lab-up", "--json", "-e", f"lab_file={lab_file}"))
    assert again["hosts"]["localhost"]["changed"] == 0

    words = ["-e", f"scenario_file={scenario}", "-e", "lab=pl-tiny"]
    missed = mrclab_play("chaos", *words, "-e", "settings=[expect.min_goodput_fraction=99.99%]")
    assert missed.returncode in (1, 4)  # 4: this machine was too busy for a verdict
    report = tmp_path / "runs" / "localhost" / "pl-flap"
    assert json.loads((report / "summary.json").read_text())["verdict"] in ("fail", "invalid")
    assert (report / "report.html").stat().st_size > 10_000

    parsed(mrclab_play("collect", "--json", "-e", "lab=pl-tiny", "-e", "link=p0t0-0:p0t1-0", "-e", "capture_for=1s"))
    listing = ["tar", "-tzf", str(tmp_path / "runs" / "localhost" / "collected.tgz")]
    names = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
    assert {"./link.pcapng", "./ports.json", "./run/mrclab/pl-tiny/agents/h0.log"} <= set(names)

    gone = parsed(mrclab_play("lab-down", "--json", "-e", "lab=pl-tiny"))
    assert gone["hosts"]["localhost"]["changed"] == 1


def test_an_unreachable_machine_is_named(mrclab_play: Callable[..., Any], tmp_path: Path) -> None:
    inventory = written(tmp_path / "hosts.ini", "nobody-home ansible_host=127.0.0.1 ansible_port=1\n")
    answer = mrclab_play("lab-down", "-i", inventory)
    assert answer.returncode == 3
    assert "cannot reach nobody-home" in answer.stderr and "Connection refused" in answer.stderr


@pytest.mark.parametrize(
    ("inventory", "playbook", "words"),
    [
        ("all:\n  hosts: [\n", A_WORD, "Ansible refused"),
        ("", A_WORD, "names no machine"),
        ("localhost ansible_connection=local\n", "- hosts: all\n  tusks: []\n", "'tusks' is not a valid attribute"),
    ],
)
def test_what_ansible_takes_for_wrong_is_wrong_input(
    mrclab_play: Callable[..., Any], tmp_path: Path, inventory: str, playbook: str, words: str
) -> None:
    answer = mrclab_play(written(tmp_path / "mine.yaml", playbook), "-i", written(tmp_path / "hosts", inventory))
    assert answer.returncode == 2
    assert words in answer.stderr


def test_a_setting_of_the_wrong_type_is_wrong_input(mrclab_play: Callable[..., Any]) -> None:
    answer = mrclab_play("chaos", "-e", "seed=often")
    assert answer.returncode == 2
    assert "'seed'" in answer.stderr


def test_a_verb_that_fails_there_gives_its_exit_code(mrclab_play: Callable[..., Any]) -> None:
    answer = mrclab_play("lab-up", "-e", "lab=no-such-lab")
    assert answer.returncode == 2
    assert "there is no lab file 'no-such-lab'" in answer.stderr


def test_many_plays_leave_as_many_folders_as_few(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "TMPDIR", "HOME"):
        monkeypatch.setenv(name, environment[name])
    before = signal.getsignal(signal.SIGINT)
    book = books.find_book(written(tmp_path / "mine.yaml", A_WORD))
    seen, told = [], []
    for _ in range(play.KEEP + 2):
        played = play.play(book, books.find_inventory("local"), {}, "mine", lambda story, done: told.append(done))
        assert played.exit_code == 0
        seen.append(sorted(str(path) for path in (tmp_path / "state").rglob("*") if path.is_dir()))
    assert [one.message for one in told if one is not None] == ["a word"] * len(seen)
    assert len(seen[-1]) == len(seen[-2]) == len(seen[play.KEEP - 1])
    assert signal.getsignal(signal.SIGINT) is before  # ansible-runner's own handler would stay
    assert not list((tmp_path / "tmp").glob("mrclab-play-*"))


@pytest.mark.parametrize(
    ("when", "number"),
    [
        ("before", signal.SIGINT),
        ("during", signal.SIGINT),
        pytest.param("before", signal.SIGTERM, marks=pytest.mark.full),
        pytest.param("during", signal.SIGTERM, marks=pytest.mark.full),
    ],
)
def test_an_interrupted_play_leaves_nothing(
    mrclab_play: Callable[..., Any], tmp_path: Path, environment: dict[str, str], when: str, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "testbed.cli", "play", written(tmp_path / "long.yaml", A_LONG_TASK)]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as playing:
        home = wait_for(lambda: next(iter((tmp_path / "tmp").glob("mrclab-play-*")), None))
        if when == "during":
            wait_for(lambda: sleeping(playing.pid))
        family = processes.descendants(playing.pid)
        playing.send_signal(number)
        _, words = playing.communicate(timeout=WITHIN_S)
    assert playing.returncode == 130
    assert words.strip().splitlines()[-1] == "mrclab: interrupted"
    assert when == "before" or family
    assert not home.exists() and not any(map(alive, family))


def sleeping(playing: int) -> bool:
    return any(b"81.25" in command_line(pid) for pid, _ in processes.descendants(playing))


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def alive(process: processes.Process) -> bool:
    return command_line(process[0]) != b""


def wait_for(value: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while not (found := value()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def test_two_plays_of_one_lab_do_not_meet(mrclab_play: Callable[..., Any], environment: dict[str, str]) -> None:
    folder = Path(environment["XDG_STATE_HOME"]) / "mrclab" / "plays" / "tiny"
    with play.held(folder):
        answer = mrclab_play("lab-down", "-e", "lab=tiny")
    assert answer.returncode == 2
    assert "another play of tiny is running" in answer.stderr


def test_without_ssh_other_machines_are_refused(
    mrclab_play: Callable[..., Any], tmp_path: Path, environment: dict[str, str]
) -> None:
    answer = mrclab_play("lab-down", "-i", "one,", env={**environment, "PATH": str(tmp_path)})
    assert answer.returncode == 3
    assert "apt-get install openssh-client" in answer.stderr


def test_without_ansible_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(play.MissingError) as missing:
        play.require()
    assert "ansible_runner is missing" in str(missing.value)
    assert "pip install" in missing.value.fix


def test_the_checkout_is_packed_whole_and_always_alike(tmp_path: Path) -> None:
    program = books.find_book("provision").path.parent / "roles" / "tool" / "files" / "pack.py"
    root = tmp_path / "checkout"
    shutil.copytree(program.parent, root)
    (root / ".venv").mkdir()
    (root / ".venv" / "big").touch()
    packs = []
    for _ in range(2):
        command = [sys.executable, str(program), str(root)]
        made = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "TMPDIR": str(tmp_path)}
        )
        packs.append(Path(made.stdout.strip()))
    listed = subprocess.run(["tar", "-tzf", packs[0]], capture_output=True, text=True, check=True).stdout.split()
    assert listed == ["pack.py"]
    assert packs[0].name == packs[1].name and packs[0].read_bytes() == packs[1].read_bytes()
