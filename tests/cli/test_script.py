"""The script ./mrclab: from any folder, through a symlink, as root and as another user, with and without sudo.

It runs in a copy of the checkout's root whose .venv is the Python of these tests, so that nothing is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = ["unshare", "--user"]  # no id is mapped there: another user, without rights

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "check out"
    (root / ".venv" / "bin").mkdir(parents=True)
    for name in ("agents", "testbed", "topologies", "scenarios", "pyproject.toml", "requirements.lock",
                 "requirements-test.lock"):  # fmt: skip
        (root / name).symlink_to(ROOT / name)
    (root / "mrclab").write_bytes((ROOT / "mrclab").read_bytes())
    (root / "mrclab").chmod(0o755)
    python = root / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{root}" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    stamp = f"{root}\n{(ROOT / 'requirements.lock').read_text()}"
    (root / ".venv" / "stamp").write_text(stamp)
    return root


def run(*command: str | Path, cwd: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", **({} if path is None else {"PATH": path})}
    return subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)


def with_sudo(tmp_path: Path) -> str:
    """A PATH on which `sudo` is a program that says how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sudo").write_text('#!/bin/sh\necho sudo "$@"\n')
    (folder / "sudo").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_from_another_folder_and_through_symlinks(checkout: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.symlink_to(checkout / "mrclab")
    second = tmp_path / "elsewhere" / "second"
    second.parent.mkdir()
    second.symlink_to("../first")
    (second.parent / "mine.yaml").write_text((ROOT / "topologies" / "tiny.yaml").read_text())
    answer = run("./second", "validate", "mine.yaml", cwd=second.parent)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("lab mine is right")


def test_it_leaves_with_the_exit_code_of_the_verb(checkout: Path, tmp_path: Path) -> None:
    assert run(checkout / "mrclab", "upp", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    "verb", [["up"], ["up", "tiny"], ["down"], ["run", "demo"], ["trace", "h0", "h5", "--ev", "0", "--probe"],
             ["exec", "h0", "--", "ip", "--help"], ["fault", "list"], ["demo"], ["cli"], ["status"]]
)  # fmt: skip
def test_another_user_gets_sudo_where_root_is_needed(checkout: Path, tmp_path: Path, verb: list[str]) -> None:
    answer = run(*NOBODY, checkout / "mrclab", *verb, cwd=tmp_path, path=with_sudo(tmp_path))
    assert answer.stdout.split() == ["sudo", "--", *str(checkout / "mrclab").split(), *verb], answer.stderr


@pytest.mark.parametrize("verb", [["up", "tiny"], ["down"]])
def test_without_sudo_another_user_is_told(checkout: Path, tmp_path: Path, verb: list[str]) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "env", "readlink", "unshare"):
        (tools / name).symlink_to(
            next(Path(place) / name for place in ("/bin", "/usr/bin") if (Path(place) / name).exists())
        )
    answer = run(*NOBODY, checkout / "mrclab", *verb, cwd=tmp_path, path=str(tools))
    assert answer.returncode == 3
    assert answer.stderr == f"mrclab: '{verb[0]}' needs root, and there is no sudo here; run it as root\n"


@pytest.mark.parametrize(
    "verb", [["--help"], ["up", "-h"], ["up", "tiny", "--dry-run"], ["validate", "tiny"], ["graph", "tiny"],
             ["trace", "h0", "h3", "--lab", "tiny"]]
)  # fmt: skip
def test_another_user_needs_no_root_where_nothing_is_made(checkout: Path, tmp_path: Path, verb: list[str]) -> None:
    answer = run(*NOBODY, checkout / "mrclab", *verb, cwd=tmp_path, path=with_sudo(tmp_path))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout and not answer.stdout.startswith("sudo")


def test_only_the_verb_test_installs_what_only_tests_need(checkout: Path, tmp_path: Path) -> None:
    python, calls = checkout / ".venv" / "bin" / "python", tmp_path / "calls"
    python.write_text(f'#!/bin/sh\necho "$@" >>"{calls}"\n')
    for verb in ("validate", "test", "test"):
        run("env", "MRCLAB_PURE=1", checkout / "mrclab", verb, cwd=tmp_path)
    said = [call.removeprefix("-m testbed.cli ") for call in calls.read_text().splitlines()]
    assert said[0] == "validate" and said[2:] == ["test", "test"]
    assert said[1].endswith(f"-r {checkout}/requirements-test.lock")


def test_the_agents_are_compiled_once_for_each_state_of_their_source(checkout: Path, tmp_path: Path) -> None:
    python, calls = checkout / ".venv" / "bin" / "python", tmp_path / "calls"
    python.write_text(f'#!/bin/sh\necho "$@" >>"{calls}"\n')
    agents = checkout / "agents"
    agents.unlink()
    (agents / "wire" / "deep").mkdir(parents=True)
    for place in ("", "wire", "wire/deep"):
        (agents / place / "one.py").write_text("x = 1\n")

    def called(*verb: str) -> list[str]:
        calls.write_text("")
        run("env", "MRCLAB_PURE=", checkout / "mrclab", *verb, cwd=tmp_path)
        return calls.read_text().splitlines()

    build, verb = "-m agents.build", "-m testbed.cli sim demo"
    assert called("validate", "demo") == ["-m testbed.cli validate demo"]
    assert called("sim", "demo") == [build, verb]
    assert called("sim", "demo") == [verb]
    (agents / "wire" / "deep" / "one.py").write_text("x = 2\n")
    assert called("sim", "demo") == [build, verb]
    python.write_text(f'#!/bin/sh\necho "$@" >>"{calls}"\necho no compiler >&2\n[ "$2" != agents.build ]\n')
    (agents / "one.py").write_text("x = 2\n")
    answer = run("env", "MRCLAB_PURE=", checkout / "mrclab", "sim", "demo", cwd=tmp_path)
    assert "plain Python, which is slower: no compiler" in answer.stderr
