"""Programs, Python packages and rights: what can be installed or given."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path

from testbed.doctor.row import Look, Row, State, judged
from testbed.topology.library import checkout

PACKAGES_FILE = Path(__file__).parents[1] / "packages.txt"

REQUIRED_MODULES = ("click", "jinja2", "mininet", "pydantic", "rich", "yaml")

# Module -> what it is for; the extra of the project that brings it.
OPTIONAL_MODULES = {"isal": ("fast checksums", "fast"), "matplotlib": ("figures in reports", "report")}
PAGE_MODULES = {"starlette": ("the live page", "web"), "uvicorn": ("the live page", "web")}
TEST_MODULES = dict.fromkeys(("pytest", "hypothesis", "scapy", "pyroute2", "selenium"), ("the tests", "test"))
PLAY_MODULES = {"ansible_runner": ("runs the playbooks", "play"), "ansible": ("the playbooks", "play")}


def root() -> Iterator[Row]:
    """Does this process run as root?"""
    user = os.geteuid()
    fix = "sudo ./mrclab ..." if shutil.which("sudo") else "run it as root"
    found = "running as root" if user == 0 else f"running as user {user}"
    yield judged("root", user == 0, found, "namespaces, links and raw sockets", fix)


def programs() -> Iterator[Row]:
    """Is what each package that a lab needs brings there?"""
    yield from _packages("lab")


def packages_for(need: str, otherwise: State = "missing") -> Look:
    """A look at the packages of packages.txt with another need than `lab`."""
    return lambda: _packages(need, otherwise)


def _packages(need: str, otherwise: State = "missing") -> Iterator[Row]:
    for line in PACKAGES_FILE.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            package, its_need, proof, purpose = line.split(maxsplit=3)
            if its_need == need:
                name = "Python's venv" if proof.startswith("python3:") else Path(proof).name
                place = _place_of(proof)
                found = place or "not found"
                yield judged(name, place is not None, found, purpose, f"apt-get install {package}", otherwise)


def _place_of(proof: str) -> str | None:
    """Where the proof of a package is; None when it is not there."""
    if proof.startswith("python3:"):
        in_venv = sys.prefix != sys.base_prefix
        return sys.prefix if in_venv or importlib.util.find_spec(proof.removeprefix("python3:")) else None
    if proof.startswith("/"):
        return next(iter(glob(proof)), None)
    return shutil.which(proof) or shutil.which(proof, path="/usr/sbin")


def routing_daemons() -> Iterator[Row]:
    """Is FRR there? Only labs with routing: bgp need it; `up` refuses them where it is missing."""
    from testbed.lab import frr  # loads the netlink library

    trouble = frr.missing()
    yield judged("FRR", not trouble, trouble or str(frr.DAEMONS), frr.PURPOSE, frr.FIX, "degraded")


def ansible() -> Iterator[Row]:
    """Is what runs playbooks there: beside this Python, or on the PATH?"""
    yield from modules_for(PLAY_MODULES)()
    place = shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    yield judged("ansible-playbook", place is not None, place or "not found", "the playbooks", _pip("mrclab[play]"))


def modules() -> Iterator[Row]:
    """Are the Python packages there that everything needs?"""
    absent = [name for name in REQUIRED_MODULES if not importlib.util.find_spec(name)]
    found = f"without {', '.join(absent)}" if absent else f"all {len(REQUIRED_MODULES)}"
    yield judged("Python packages", not absent, found, "the tool itself", _pip("mrclab"))


def modules_for(wanted: Mapping[str, tuple[str, str]], otherwise: State = "missing") -> Look:
    """A look at further Python packages."""

    def look() -> Iterator[Row]:
        for name, (purpose, extra) in wanted.items():
            there = importlib.util.find_spec(name) is not None
            found = "found" if there else "not found"
            yield judged(f"Python's {name}", there, found, purpose, _pip(f"mrclab[{extra}]"), otherwise)

    return look


def compiled_agents() -> Iterator[Row]:
    """Are the agents compiled, as they are now? They work as plain Python too."""
    from agents import compiled

    there = compiled.is_built(compiled.build_folder())
    found = "compiled" if there else "plain Python"
    yield judged("fast agents", there, found, "more packets a second", _python("agents.build"), "degraded")


def _pip(what: str) -> str:
    """The checkout's packages are in one list, and those that only its tests need in another."""
    locked = "requirements-test.lock" if "[test]" in what else "requirements.lock"
    root_folder = checkout()
    return _python("pip", "install", *(("-r", str(root_folder / locked)) if root_folder else ("--upgrade", what)))


def _python(*words: str) -> str:
    """A command of this very Python's."""
    return shlex.join((sys.executable, "-m", *words))
