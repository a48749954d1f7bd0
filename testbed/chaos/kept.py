"""A folder that keeps what each of many runs came to, so that whoever was interrupted goes on where it was.

The folder says what it is of. A result that is there is not made again, unless its run was not valid.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from testbed.chaos.scenario import Scenario
from testbed.topology.errors import InputError
from testbed.topology.labspec import LabSpec

_IDENTITY_FILE = "of.json"

Result = dict[str, Any]  # of a run, for JSON; its `verdict` among the rest


class Kept:
    """The results in one folder, each by a name of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def open(cls, folder: Path, what: str, scenario: Scenario, spec: LabSpec, where: str) -> Kept:
        """Make the folder, or see that it is of this scenario, whatever its seed, on this lab; `what` is for people.

        Raises InputError when it is of another, or cannot be written.
        """
        text = "".join([
            scenario.model_dump_json(exclude={"seed"}, exclude_none=True),
            spec.model_dump_json(exclude_none=True),
            where,
        ])  # fmt: skip
        identity = {"scenario": scenario.name, "where": where, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        path = folder / _IDENTITY_FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and _read(path) != identity:
                raise InputError(f"{folder} holds another {what}", "name another folder with --out, or remove that one")
            _write(path, identity)
        except OSError as error:
            why = error.strerror
            raise InputError(f"the results cannot go to {folder}: {why}", "name another folder") from None
        return cls(folder)

    def load(self, name: str) -> Result | None:
        """What was kept by this name, valid or not."""
        return _read(self._path(name))

    def lacks(self, name: str) -> bool:
        """Whether this one has to be made, or made again."""
        found = self.load(name)
        return found is None or found["verdict"] == "invalid"

    def save(self, name: str, result: Result) -> None:
        """Keep a result, all of it or nothing."""
        _write(self._path(name), result)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def _read(path: Path) -> Result | None:
    """None for what is not there, or is no result: a power cut can leave a file empty."""
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, result: Result) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(result) + "\n")
    partial.replace(path)
