"""A lab like one that comes with mrclab, under another name: up inside the block, gone after it whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.lab import lifecycle
from testbed.lab.running import RunningLab, open_lab
from testbed.topology import library
from testbed.topology.labfile import load_lab


@contextmanager
def lab_like(topology: str, name: str, folder: Path) -> Iterator[RunningLab]:
    """`folder` takes the lab file."""
    path = folder / f"{name}.yaml"
    path.write_text(library.find("topologies", topology).read_text())
    try:
        lifecycle.up(load_lab(path), path)
        with open_lab(name) as lab:
            yield lab
    finally:
        lifecycle.down(name)
