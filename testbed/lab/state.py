"""What a lab has made, on disk, written before it is made: so that `down` works after kill -9 at any moment.

One folder per lab, /run/mrclab/<lab>/, that only root writes to and everyone may read, as pictures and traces of a lab
need no root; the agents' sockets in it are root's alone. `state.json` is replaced atomically. It holds the lab's spec,
so that no lab file is needed later, and the names of everything that has to go again. /run is empty after a reboot, as
the kernel is.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from testbed.topology.errors import InputError, nearest
from testbed.topology.labspec import LabSpec, is_lab_name

STATE_ROOT = Path("/run/mrclab")
SCHEMA_VERSION = 2
_FILE = "state.json"

Phase = Literal["making", "up", "removing"]


def directory(lab: str) -> Path:
    """The folder of a lab, whether it exists or not. Raises InputError for what is no lab's name.

    Every path below STATE_ROOT is made here: what came from a command line may hold `..` or be an absolute path, and
    `forget` would remove what it leads to.
    """
    if not is_lab_name(lab):
        stem = Path(lab).stem
        raise InputError(f"{lab!r} is not the name of a lab", f"did you mean {stem!r}?" if is_lab_name(stem) else "")
    return STATE_ROOT / lab


@dataclass(slots=True)
class LabState:
    """The recorded state of a lab. Change the fields, then `save`, then act."""

    spec: LabSpec
    source_file: str
    phase: Phase = "making"
    namespaces: list[str] = field(default_factory=list)
    agents: dict[str, int] = field(default_factory=dict)  # host -> pid
    routers: dict[str, dict[str, int]] = field(default_factory=dict)  # switch -> routing daemon -> pid
    programs: list[int] = field(default_factory=list)  # ids of the eBPF programs that its ports hold
    maps: dict[str, int] = field(default_factory=dict)  # ids of the maps of these programs, by name
    up_result: dict[str, Any] = field(default_factory=dict)  # of `up`, for later readers

    @property
    def name(self) -> str:
        """The lab's name."""
        return self.spec.name

    @property
    def directory(self) -> Path:
        """Where the lab keeps its files: sockets and logs of agents, the journal of faults."""
        return directory(self.name)

    def save(self) -> None:
        """Write the file, atomically; the folder has to be there (`lock` makes it)."""
        content = {
            "schema_version": SCHEMA_VERSION,
            # What the lab file said, and not what it left out: some settings may not be said together.
            "spec": self.spec.model_dump(mode="json", exclude_unset=True),
            "source_file": self.source_file,
            "phase": self.phase,
            "namespaces": self.namespaces,
            "agents": self.agents,
            "routers": self.routers,
            "programs": self.programs,
            "maps": self.maps,
            "up_result": self.up_result,
        }
        partial = self.directory / f"{_FILE}.new"
        with partial.open("w") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self.directory / _FILE)


def load(lab: str) -> LabState | None:
    """The recorded state of a lab; None when nothing was recorded. Raises InputError when the file cannot be read."""
    path = directory(lab) / _FILE
    try:
        content = json.loads(path.read_text())
        version = content["schema_version"]
        if version != SCHEMA_VERSION:
            what = f"lab {lab} was made by another version of mrclab (state {version})"
            raise InputError(what, "take it down with that")
        return _from_file(content)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:  # not JSON, or not what `save` writes
        reason = str(error).splitlines()[0]
        raise InputError(f"the state of lab {lab} is damaged ({reason})", "look at the file", file=path) from None


def _from_file(content: dict[str, Any]) -> LabState:
    return LabState(
        spec=LabSpec.model_validate(content["spec"]),
        source_file=content["source_file"],
        phase=content["phase"],
        namespaces=content["namespaces"],
        agents=content["agents"],
        routers=content.get("routers", {}),
        programs=content["programs"],
        maps=content["maps"],
        up_result=content["up_result"],
    )


def names() -> list[str]:
    """All labs that have a state file, up or half made."""
    return sorted(path.parent.name for path in STATE_ROOT.glob(f"*/{_FILE}"))


def forget(lab: str) -> None:
    """Remove the lab's folder with all that is in it: the last act of `down`."""
    shutil.rmtree(directory(lab), ignore_errors=True)


def known(lab: str) -> LabState:
    """The state of a lab, up or half made. Raises InputError when there is none, with the nearest name."""
    found = load(lab)
    if found is None:
        others = names()
        hint = nearest(lab, others) or (f"up: {', '.join(others)}" if others else f"bring it up: mrclab up {lab}")
        raise InputError(f"lab {lab} is not up", hint)
    return found


def require_up(lab: str) -> LabState:
    """The state of a lab that is wholly up. Raises InputError otherwise."""
    found = known(lab)
    if found.phase != "up":
        raise InputError(f"lab {lab} is only half there ({found.phase})", f"remove the rest: mrclab down {lab}")
    return found
