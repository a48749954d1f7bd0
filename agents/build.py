"""Compiles the protocol (`agents.compiled`): `python -m agents.build`, which the mrclab script does once.

Exit status 1, with one line that says why, when this machine cannot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from agents.compiled import DONE, PURE_VARIABLE, SOURCE, build_folder, builds, is_built, is_compiled, sources

_KEPT_BUILDS = 8

_SETUP = """\
import sys
from setuptools import setup
from mypyc.build import mypycify
setup(name="mrclab-agents", packages=[], script_args=["-q", "build_ext", "--inplace"],
      ext_modules=mypycify(["--ignore-missing-imports", *sys.argv[1:]],
                           group_name="mrclab", opt_level="2", debug_level="0"))
"""


class BuildError(Exception):
    """It cannot be compiled here; the text is one line."""


def build() -> Path:
    """Compile, unless it is done; the folder. Raises BuildError when this machine cannot."""
    folder = build_folder()
    if is_built(folder):
        return folder
    if sys.prefix == sys.base_prefix:
        raise BuildError("compiled code is kept in a virtual environment, and this Python runs in none")
    builds().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=builds(), prefix="building-") as name:
        made = Path(name)
        _compile(made)
        shutil.rmtree(made / "build", ignore_errors=True)
        (made / DONE).touch()
        made.chmod(0o755)  # for other users as well
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
        made.mkdir()  # for the context to remove
    for old in sorted(builds().iterdir(), key=lambda path: path.stat().st_mtime)[:-_KEPT_BUILDS]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _compile(folder: Path) -> None:
    names = []
    for path in [SOURCE / "__init__.py", *sources()]:
        copy = folder / "agents" / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
        if is_compiled(path):
            names.append(str(copy.relative_to(folder)))
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("clang", "gcc", "cc")), None)
    if compiler is None:
        raise BuildError("there is no C compiler")
    answer = subprocess.run(
        [sys.executable, "-c", _SETUP, *names],
        cwd=folder,
        env={**os.environ, "CC": compiler, PURE_VARIABLE: "1", "PYTHONPATH": "", "CFLAGS": "-Wno-everything"},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0 or not list(folder.glob("agents/nic.*.so")):
        lines = [line for line in (answer.stderr + answer.stdout).splitlines() if line.strip()]
        told = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no reason given")
        raise BuildError(" ".join(told.split())[:300])


def main() -> int:
    """Build; exit status 1, with one line that says why, when it cannot be done."""
    try:
        build()
    except (BuildError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
