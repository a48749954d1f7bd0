"""Where the lab files, scenarios and playbooks of mrclab are: in the checkout or, when installed, in share/."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from testbed.topology.errors import InputError, nearest

Shelf = Literal["topologies", "scenarios", "playbooks"]

_KIND_OF_FILE = {"topologies": "lab", "scenarios": "scenario", "playbooks": "playbook"}
_CHECKOUT = Path(__file__).resolve().parents[2]
_INSTALLED = Path(sys.prefix) / "share" / "mrclab"


def checkout() -> Path | None:
    """The root of the checkout that this is; None when it is an installed package."""
    return _CHECKOUT if (_CHECKOUT / "pyproject.toml").is_file() else None


def folder(shelf: Shelf) -> Path:
    """The folder of a shelf. It exists in a checkout and in an installed wheel."""
    return (checkout() or _INSTALLED) / shelf


def names(shelf: Shelf) -> list[str]:
    """The names of the files on a shelf, without their endings."""
    return sorted(path.stem for path in folder(shelf).glob("*.yaml"))


def is_there(path: Path, *, file: bool = False) -> bool:
    """Is there such a thing (with `file`: such a file)? What no file could be called, since it is too long, is not."""
    try:
        return path.is_file() if file else path.exists()
    except OSError:
        return False


def find(shelf: Shelf, path_or_name: str | Path) -> Path:
    """The file that a person means: a path, or the name of a file on the shelf.

    A plain word is looked for on the shelf first, so that a stray file or folder of that name changes nothing. Raises
    InputError with the nearest name.
    """
    text = str(path_or_name)
    known = names(shelf)
    if text in known:
        return folder(shelf) / f"{text}.yaml"
    path = Path(path_or_name)
    if is_there(path):
        return path
    kind = _KIND_OF_FILE[shelf]
    hint = nearest(path.stem, known) or f"{shelf} that come with mrclab: {', '.join(known)}"
    raise InputError(f"there is no {kind} file {text!r}, and no {kind} of that name", hint)
