"""Playbooks run by ansible-runner: progress as it comes, artifacts kept and rotated, and nothing left behind.

Artifacts (Ansible's output and events) are kept in a folder for each lab below the user's state directory, and not
with the lab's other state in /run: a play may concern a lab on another machine, runs without root, and `lab-down`
removes that folder while it runs. What only the play needs (Ansible's home, connections) is in a temporary folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import doctor
from testbed.chaos.interrupt import Interruptible
from testbed.doctor import PACKAGES_FILE
from testbed.play import processes
from testbed.play.books import LOCAL, Book
from testbed.play.story import Done, Story
from testbed.topology import library
from testbed.topology.errors import InputError, MissingError

KEEP = 5  # plays of each lab
_STOP_WITHIN_S = 1  # how often ansible-runner asks whether to stop
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ANSIBLE_S_ERROR = re.compile(r"^\[?(?:ERROR\]?!?:?|fatal:)\s*(.*)", re.MULTILINE)

Tell = Callable[[Story, Done | None], None]


@dataclass(frozen=True, slots=True)
class Played:
    """How a play ended. `exit_code` as of a verb: that of a verb of mrclab that failed on a host, where one did."""

    story: Story
    exit_code: int
    seconds: float
    artifacts: Path


def state_folder() -> Path:
    """Where plays are kept: mrclab/plays in XDG_STATE_HOME."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "mrclab" / "plays"


def require() -> None:
    """Raises MissingError when Ansible, which is an extra, is not there."""
    doctor.require("play")


def require_ssh(inventory: str) -> None:
    """Raises MissingError when other machines are meant and there is no ssh."""
    if inventory != LOCAL and shutil.which("ssh") is None:
        raise MissingError("ssh is missing", "plays on other machines", "apt-get install openssh-client")


def play(book: Book, inventory: str, variables: dict[str, Any], owner: str, tell: Tell, arguments: str = "") -> Played:
    """Run a playbook, telling of each task as it begins (None) and ends on a host. For the main thread.

    `arguments` are further ones of ansible-playbook. Raises MissingError for a host that cannot be reached, InputError
    when Ansible takes the inventory, the playbook or a setting for wrong, KeyboardInterrupt when a signal ended it.
    """
    require()
    import ansible_runner

    story = Story()

    def on_event(event: dict[str, Any]) -> bool:
        done = story.take(event)
        if done is not None or event["event"] == "playbook_on_task_start":
            tell(story, done)
        return True

    folder = state_folder() / owner
    begin = time.monotonic()
    with Interruptible() as stop, held(folder), _home() as home:

        def stopped() -> bool:
            if stop.signal_name:
                processes.end_descendants()
            return bool(stop.signal_name)

        ran = ansible_runner.run(
            private_data_dir=str(folder),
            project_dir=str(book.path.parent),
            playbook=str(book.path),
            inventory=[inventory],
            extravars={**_variables(), **variables},
            envvars=_environment(home),
            settings={"pexpect_timeout": _STOP_WITHIN_S, "suppress_ansible_output": True},
            cmdline=arguments or None,
            rotate_artifacts=KEEP,
            suppress_env_files=True,
            event_handler=on_event,
            cancel_callback=stopped,
            quiet=True,
        )
    if stop.signal_name:
        raise KeyboardInterrupt
    artifacts = Path(ran.config.artifact_dir)
    return Played(story, _exit_code(story, ran.rc, artifacts), round(time.monotonic() - begin, 3), artifacts)


def _exit_code(story: Story, code: int, artifacts: Path) -> int:
    if story.unreachable:
        told = "; ".join(dict.fromkeys(" ".join(one.message.split()) for one in story.unreachable))
        hosts = ", ".join(dict.fromkeys(one.host for one in story.unreachable))
        raise MissingError(f"cannot reach {hosts}", told, "is the machine up, and may you log in there by ssh?")
    if story.failed:
        return max(one.code for one in story.failed)
    if code:
        said = _COLOUR.sub("", (artifacts / "stdout").read_text(errors="replace"))
        match = _ANSIBLE_S_ERROR.search(said)
        reason = match[1].strip() if match else said.strip()[-300:] or f"exit code {code}"
        raise InputError(f"Ansible refused: {reason}", f"all it said: {artifacts / 'stdout'}")
    if not story.hosts:
        raise InputError("the inventory names no machine")
    return 0


def _variables() -> dict[str, Any]:
    """What the playbooks are told about this side, whether a checkout or an installed package."""
    return {
        "packages_list": str(PACKAGES_FILE),
        "mrclab_checkout": str(library.checkout() or ""),
        "mrclab_bin": str(Path(sys.executable).parent),
        "results": str(Path("runs").resolve()),
    }


def _environment(home: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_HOME": str(home),
        "TMPDIR": str(home),  # a module that is ended leaves its temporary files
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(home / processes.CONNECTIONS),
        "ANSIBLE_CONFIG": str(library.folder("playbooks") / "ansible.cfg"),
        "ANSIBLE_HOST_KEY_CHECKING": "True",  # ansible-runner would switch it off
        # Asks nothing, since nobody would see the question.
        "ANSIBLE_SSH_COMMON_ARGS": "-o StrictHostKeyChecking=accept-new -o BatchMode=yes",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_NOCOLOR": "True",
    }


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """The folder, made if need be, for this play alone: rotation would remove what another one still writes."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another play of {folder.name} is running", "try again when it is done") from None
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """Ansible's home for one play; with it go its connections."""
    home = Path(tempfile.mkdtemp(prefix="mrclab-play-"))
    try:
        yield home
    finally:
        processes.close_connections(home)
        shutil.rmtree(home, ignore_errors=True)
