"""Labs for kernel tests: small copies of the topologies under names of their own, removed whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.lab import lifecycle
from testbed.lab.running import RunningLab
from testbed.topology import library
from tests.kernel.labs import lab_like


@pytest.fixture
def lab_file(tmp_path: Path) -> Iterator[Callable[[str, str], Path]]:
    """Makes a copy of a topology under another name; a lab of that name is taken down after the test."""
    made: list[str] = []

    def copy(topology: str, name: str) -> Path:
        made.append(name)
        path = tmp_path / f"{name}.yaml"
        path.write_text(library.find("topologies", topology).read_text())
        return path

    yield copy
    for name in made:
        lifecycle.down(name)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """A lab like `tiny`, up for all tests of a module. A test that damages it has to mend it."""
    with lab_like("tiny", "fa-tiny", tmp_path_factory.mktemp("labs")) as lab:
        yield lab
