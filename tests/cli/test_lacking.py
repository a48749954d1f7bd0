"""Machines that lack one thing: the doctor names it, and the verbs that need it refuse in the same words.

The thing is hidden in a mount namespace of one process; the machine itself keeps it.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from glob import glob
from pathlib import Path

import pytest

from testbed.doctor import software

pytestmark = pytest.mark.kernel

_NOBODY = 65534


def _without(path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line where `path` is not: a program is covered by /dev/null, a header's folder by an empty one."""
    folder = shlex.quote(str(Path(path).parent))
    hide = f"mount -t tmpfs none {folder}" if "/include/" in path else f"mount --bind /dev/null {shlex.quote(path)}"
    command = shlex.join([sys.executable, "-m", "testbed.cli", *arguments])
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{hide} && exec {command}"], capture_output=True, text=True, check=False
    )


def _needs() -> list[tuple[str, str]]:
    """(package, where its proof is) of what labs need, this Python's own part apart."""
    lines = [line.split() for line in software.PACKAGES_FILE.read_text().splitlines() if " lab " in line]
    return [
        (package, shutil.which(proof, path="/usr/bin:/usr/sbin:/bin:/sbin") or next(iter(glob(proof)), proof))
        for package, need, proof, *_ in lines
        if need == "lab" and not proof.startswith("python3:")
    ]


@pytest.mark.parametrize(("package", "path"), _needs())
def test_the_doctor_names_what_is_not_there_and_nothing_else(package: str, path: str) -> None:
    answer = _without(path, "doctor", "--json")
    assert answer.returncode == 3, answer.stderr
    missing = [row for row in json.loads(answer.stdout)["checks"] if row["state"] == "missing"]
    # headers of one folder go together
    assert f"apt-get install {package}" in {row["fix"] for row in missing}
    assert len(missing) == 1 or "/include/" in path, missing
    assert all("up" in row["verbs"] for row in missing)


def test_up_refuses_in_the_same_words_before_anything_is_made(tmp_path: Path) -> None:
    lab = tmp_path / "no-clang.yaml"
    lab.write_text("planes: 1\nt0_groups: 1\nhosts_per_t0: 2\nt1s_per_plane: 1\n")
    answer = _without(str(shutil.which("clang")), "up", str(lab))
    assert answer.returncode == 3
    assert answer.stderr == (
        "mrclab: clang is missing: not found (compiles the eBPF programs of the ports); apt-get install clang\n"
    )
    assert not Path("/run/mrclab/no-clang").exists()


@pytest.mark.parametrize(
    "verb", ["down", "status", "exec h0 -- true", "fault list", "repair", "watch", "capture h0:p0t0-0"]
)
def test_what_needs_root_says_so_without_it(verb: str) -> None:
    command = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    answer = subprocess.run(
        [*command, sys.executable, "-m", "testbed.cli", *verb.split()], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 3
    assert answer.stderr.startswith(f"mrclab: root is missing: running as user {_NOBODY}"), answer.stderr
