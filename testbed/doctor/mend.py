"""`doctor --fix`: the commands that mend what is missing, run one by one after asking.

A row's fix is a command when its first word is this Python or a program of `_PROGRAMS`; everything else only a person
can do.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable

from testbed.doctor.needs import fix_of
from testbed.doctor.row import Row

_PROGRAMS = ("apt-get", "modprobe", "sysctl")


def commands(rows: Iterable[Row], *, with_degraded: bool = True) -> list[list[str]]:
    """The commands that mend these rows, packages together in one; none for what is OK or cannot be mended so."""
    states = ("missing", "degraded") if with_degraded else ("missing",)
    fixes = list(dict.fromkeys(row.fix for row in rows if row.state in states and _is_command(row.fix)))
    packages = [row for row in rows if row.state in states and row.fix.startswith("apt-get install ")]
    found = [shlex.split(fix) for fix in fixes if not fix.startswith("apt-get install ")]
    if packages:
        install = [*shlex.split(fix_of(packages)), "-y", "--no-install-recommends"]
        found = [["apt-get", "update"], install, *found]
    return found


def run(wanted: list[list[str]], ask: Callable[[str], bool], say: Callable[[str], None]) -> bool:
    """Run each command for which `ask` agrees, by sudo where that is needed; False when one failed or was left."""
    done_all = True
    for command in wanted:
        text = shlex.join(command)
        if not ask(text):
            done_all = False
            continue
        say(f"running {text}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        sudo = ["sudo", "-E"] if os.geteuid() != 0 and shutil.which("sudo") else []
        try:
            done = subprocess.run([*sudo, *command], stdin=subprocess.DEVNULL, stdout=2, env=environment, check=False)
        except OSError as error:
            say(f"{command[0]}: {error.strerror}")
            done_all = False
            continue
        if done.returncode:
            say(f"{text} ended with {done.returncode}")
            done_all = False
    return done_all


def _is_command(fix: str) -> bool:
    words = shlex.split(fix)
    return words[0] in (*_PROGRAMS, sys.executable)
