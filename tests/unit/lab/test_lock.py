"""One command at a time: the lock holds, says who has it, and goes with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.lab import lock, state
from testbed.topology.errors import InputError

_HOLD = """
import signal, sys
from pathlib import Path
from testbed.lab import lock, state
state.STATE_ROOT = Path(sys.argv[1])
with lock.exclusive("lab", "mrclab up"):
    print("held", flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "labs"
    monkeypatch.setattr(state, "STATE_ROOT", root)
    return root


def held_elsewhere(root: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, str(root)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_held_lock_names_its_holder(root: Path) -> None:
    with held_elsewhere(root) as holder:
        try:
            with (
                pytest.raises(InputError, match=rf"lab lab is busy: mrclab up \(pid {holder.pid}\)"),
                lock.exclusive("lab", "mrclab down"),
            ):
                pytest.fail("two hold the lock")
        finally:
            holder.kill()


def test_the_lock_of_a_killed_holder_is_free(root: Path) -> None:
    with held_elsewhere(root) as holder:
        os.kill(holder.pid, signal.SIGKILL)
    with lock.exclusive("lab", "mrclab down"):
        assert f"mrclab down (pid {os.getpid()})" in (root / "lab" / "lock").read_text()


def test_waiting_takes_the_lock_when_it_gets_free(root: Path) -> None:
    with held_elsewhere(root) as holder:
        holder.kill()
        with lock.exclusive("lab", "mrclab down", wait_s=5):
            assert (root / "lab" / "lock").exists()


def test_labs_do_not_hold_each_other_up() -> None:
    with lock.exclusive("one", "mrclab up"), lock.exclusive("two", "mrclab up"):
        pass


def test_nothing_stays_when_nothing_was_recorded(root: Path) -> None:
    with lock.exclusive("lab", "mrclab down"):
        assert (root / "lab").is_dir()
    assert not root.exists()


def test_a_folder_with_a_record_stays(root: Path) -> None:
    with lock.exclusive("lab", "mrclab up"):
        (root / "lab" / "state.json").write_text("{}")
    assert sorted(path.name for path in (root / "lab").iterdir()) == ["lock", "state.json"]


def test_a_holder_that_removed_the_folder_leaves_the_next_ones_lock_alone(root: Path) -> None:
    first, second = lock.exclusive("lab", "mrclab down"), lock.exclusive("lab", "mrclab up")
    first.__enter__()
    state.forget("lab")
    second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(InputError, match="busy: mrclab up"), lock.exclusive("lab", "a third"):
        pytest.fail("two hold the lock")
    second.__exit__(None, None, None)
    assert not root.exists()
