"""mrclab from an installed wheel, in a venv of its own: everything that the checkout has is there and works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from command import TINY

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout without what an earlier build or run has left there."""
    folder = tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns(".*", "build", "dist", "runs", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "src", ignore=ignore)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*pip, str(folder / "src")], check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def test_it_has_every_file_that_is_more_than_code(wheel: Path) -> None:
    inside = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    wanted = [*ROOT.glob("topologies/*.yaml"), *ROOT.glob("scenarios/*.yaml"), *ROOT.glob("playbooks/**/*.yaml")]
    wanted += [path for end in ("c", "js", "css", "html", "lua", "json") for path in ROOT.glob(f"testbed/**/*.{end}")]
    assert len(wanted) > 40
    assert {path.name for path in wanted} <= inside


def test_a_lab_and_a_play_work_from_it(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), "install", "-q", "--no-deps"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "packages-of-the-tests.pth").write_text(sysconfig.get_path("purelib"))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # Ansible's programs
    environment.pop("PYTHONPATH", None)

    def mrclab(*arguments: str) -> str:
        command = [str(venv / "bin/mrclab"), *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    lab = tmp_path / "wheel-tiny.yaml"
    lab.write_text(TINY)
    assert "is right" in mrclab("validate", "link-flap")
    try:
        assert "paths verified" in mrclab("up", str(lab))
        mrclab("exec", "--lab", "wheel-tiny", "h0", "--", "ping", "-c1", "-W5", "h3")
        mrclab("play", "lab-down", "-e", "lab=wheel-tiny")
    finally:
        mrclab("down", "wheel-tiny")
