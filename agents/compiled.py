"""The protocol compiled: the same source through mypyc, kept beside the Python that runs it, and used where it fits.

`python -m agents.build` compiles; `use`, called when the package is imported, puts the result in front of the source
files. A build is found by a hash of the very sources, of Python and of the recipe: one that does not fit them is not
seen, and then everything runs as plain Python, with the same results. MRCLAB_PURE=1 asks for that.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# What is compiled: these packages, and these modules of `agents`.
PACKAGES = ("wire", "mrc", "roce", "clustermapper", "workloads", "rawio")
MODULES = (
    "agent.py", "memory.py", "message.py", "nic.py", "nic_config.py", "peers.py", "planes.py", "telemetry.py",
    "transport.py", "verbs.py",
)  # fmt: skip
# In these packages, but left as they are: what is all ctypes, or waits for people.
LEFT = ("rawio/libc.py", "rawio/carrier.py", "rawio/capture_filter.py", "rawio/control.py")
PURE_VARIABLE = "MRCLAB_PURE"
SOURCE = Path(__file__).parent
DONE = "built"  # a file that is written last

_RECIPE = "2"  # changes with how `build` does it


def sources(root: Path | None = None) -> Iterator[Path]:
    """The files that a build depends on, of the package at `root`: all modules of these packages, and these modules."""
    root = root or SOURCE
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))
    for module in MODULES:
        yield root / module


def is_compiled(path: Path, root: Path | None = None) -> bool:
    """Whether a file of `sources(root)` is compiled, and not only copied."""
    return path.name != "__init__.py" and str(path.relative_to(root or SOURCE)) not in LEFT


def build_folder() -> Path:
    """Where the build of the sources as they are now is, or would be."""
    digest = hashlib.sha256(f"{_RECIPE} {sys.implementation.cache_tag} {sysconfig.get_platform()}".encode())
    for path in sources():
        digest.update(f"\n{path.relative_to(SOURCE)}\n".encode() + path.read_bytes())
    return builds() / digest.hexdigest()[:20]


def builds() -> Path:
    """Where builds are kept: they belong to the virtual environment that they were made with."""
    return Path(sys.prefix) / "mrclab-compiled"


def is_built(folder: Path) -> bool:
    """Whether a build is whole, and this user's to read."""
    return os.access(folder / DONE, os.R_OK)


def wanted() -> bool:
    """Whether compiled code is to be used, if there is any."""
    return os.environ.get(PURE_VARIABLE, "") in ("", "0")


def in_use() -> bool:
    """Whether the protocol runs compiled in this process."""
    from agents import nic

    return not nic.__file__.endswith(".py")


def use(search_path: list[str]) -> None:
    """Put the compiled package in front of `search_path`, that of the package `agents`, when there is one that fits."""
    if not wanted() or not builds().is_dir():
        return
    folder = build_folder()
    if is_built(folder):
        search_path.insert(0, str(folder / "agents"))
        sys.path.append(str(folder))  # where the modules find what they share
