"""Which playbooks, inventories and settings there are: names and paths of a person resolved, wrong ones refused.

A setting (`-e KEY=VALUE`) of a playbook of ours has to be an option in the argument specs of its roles, since Ansible
itself takes any, and does nothing with those that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testbed.topology import library
from testbed.topology.errors import InputError, nearest

LOCAL = "local"
_MACHINE = "machine"  # whose plays those are that concern no lab
_FILES_HERE = ("lab_file", "scenario_file", "results")  # of the machine that plays, relative to where it is called


@dataclass(frozen=True, slots=True)
class Book:
    """A playbook: its file, and the options of its roles with what they are for; none for a playbook of the user's."""

    path: Path
    options: dict[str, dict[str, Any]]

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.path.stem


def find_book(name: str) -> Book:
    """The playbook of that name or path. Raises InputError with the nearest name."""
    path = library.find("playbooks", name).resolve()
    ours = path.parent == library.folder("playbooks").resolve()
    return Book(path, _options_of(path) if ours else {})


def _options_of(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for play in yaml.safe_load(path.read_text()):
        for role in play["roles"]:
            specs = path.parent / "roles" / role / "meta" / "argument_specs.yaml"
            found |= yaml.safe_load(specs.read_text())["argument_specs"]["main"]["options"]
    return found


def find_inventory(text: str) -> str:
    """What Ansible is given for an inventory: a path, or hosts with a comma. Raises InputError for what is neither."""
    if "," in text:
        return text
    shelf = library.folder("playbooks") / "inventories"
    known = {path.stem: path for path in sorted(shelf.iterdir())}
    if text in known:
        return str(known[text])
    if text and library.is_there(Path(text)):  # "" would be this folder, with whatever is in it
        return str(Path(text).resolve())
    hint = nearest(text, known) or f"a file, hosts like 'one,two,', or one of {', '.join(known)}"
    raise InputError(f"there is no inventory {text!r}", hint)


def settings(book: Book, words: Iterable[str]) -> dict[str, Any]:
    """KEY=VALUE words as variables; values are read as YAML, so that numbers and lists may be given.

    Raises InputError for what is no such word, and for a key that nothing in the playbook knows.
    """
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise InputError(f"{word!r} is not KEY=VALUE")
        if book.options and key not in book.options and not key.startswith("ansible_"):
            hint = nearest(key, book.options) or f"it has {', '.join(book.options)}"
            raise InputError(f"the playbook {book.name} has no setting {key!r}", hint)
        if key in _FILES_HERE:
            found[key] = str(Path(value).resolve())
            if key != "results" and not Path(value).is_file():
                raise InputError(f"there is no file {value!r}")
            continue
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            found[key] = value
    return found


def owner(book: Book, given: dict[str, Any]) -> str:
    """Whose folder the play's artifacts go to: the lab's, or `machine` where it concerns no lab."""
    if "lab_file" in given:
        return Path(given["lab_file"]).stem
    named = given.get("lab") or given.get("scenario") or ("demo" if "lab" in book.options else _MACHINE)
    return Path(str(named)).stem
