"""The command line as a person uses it: a process of its own, its output and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from command import TINY, Answer, Mrclab

COMMAND_WITHIN_S = 120


@pytest.fixture
def mrclab(tmp_path: Path) -> Mrclab:
    """Runs a verb in an empty folder, and returns what it said and how it ended. A traceback is never an answer."""

    def run(*arguments: str, before: Sequence[str] = (), **options: Any) -> Answer:
        command = [*before, sys.executable, "-m", "testbed.cli", *arguments]
        usual = {"cwd": tmp_path, "env": {**os.environ, "NO_COLOR": "1"}, "capture_output": True}
        options = {**usual, **options}
        answer = subprocess.run(command, text=True, timeout=COMMAND_WITHIN_S, **options)
        assert "Traceback" not in answer.stderr, answer.stderr
        return answer

    return run


@pytest.fixture
def tiny_file(tmp_path: Path) -> Path:
    """A lab file of the size of `tiny`, under a name that only tests use."""
    path = tmp_path / "cli-tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def tiny_lab(mrclab: Mrclab, tiny_file: Path) -> Iterator[str]:
    """That lab, up; down again at the end whatever happens."""
    try:
        answer = mrclab("up", str(tiny_file))
        assert answer.returncode == 0, answer.stderr
        yield "cli-tiny"
    finally:
        assert mrclab("down", "cli-tiny").returncode == 0
