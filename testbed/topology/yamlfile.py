"""YAML files with file and line in each complaint: lab files and scenario files are read here and nowhere else.

`load` is the whole way from a path to a checked pydantic model. A file that needs checks against something else (a
scenario against its lab) goes in two steps: `read` gives a `Document`, whose `validate` makes the model and whose
`error(where, ...)` makes an InputError that points at the line of any key. All errors of a file come at once.

A place in a document is a tuple of keys and list positions, as pydantic's `loc`: `("faults", 0, "target")`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from testbed.topology.complaints import complaint
from testbed.topology.errors import InputError

Where = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)

_POSITION = re.compile("[0-9]{1,9}")
MAX_FILE_BYTES = 1 << 20  # far above any file a person writes; keeps /dev/zero from filling the memory


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that a validator of a whole model found wrong, at a place below that model."""

    where: Where
    what: str
    hint: str = ""


def refuse(problems: Iterable[Problem]) -> None:
    """For a model's `after` validator: raise all problems at once, each at its own place; with none, do nothing."""
    details = [
        InitErrorDetails(
            # Braces would be taken for fields of a template.
            type=PydanticCustomError("refused", "{what}", {"what": problem.what, "hint": problem.hint}),
            loc=problem.where,
            input=None,
        )
        for problem in problems
    ]
    if details:
        raise ValidationError.from_exception_data("refused", details)


class Document:
    """A parsed YAML mapping that knows the line of each of its keys and list items."""

    def __init__(self, path: Path, data: dict[str, Any], lines: dict[Where, int]) -> None:
        self.path = path
        self.data = data
        self._lines = lines
        self._overrides: dict[Where, str] = {}

    def line(self, where: Where) -> int:
        """The line of a place, or of what holds it when it is not in the file itself (1 for the whole file)."""
        return self._lines[self._known(where, self._lines)]

    def error(self, where: Where, what: str, hint: str = "") -> InputError:
        """An InputError that points at a place of the file, or at the override that put the value there."""
        override = self._overrides.get(self._known(where, self._overrides))
        if override is not None:
            return InputError(f"{override}: {what}", hint)
        return InputError(what, hint, file=self.path, line=self.line(where))

    def override(self, assignment: str) -> None:
        """Set one value from text like `transport.retire_evs=false` (list positions are numbers: `faults.0.at=2 s`).

        The value is YAML. A missing section on the way is made; a list gets no new items. Raises InputError.
        """
        dotted, equals, text = assignment.partition("=")
        where: Where = tuple(int(part) if _POSITION.fullmatch(part) else part for part in dotted.strip().split("."))
        if not equals or "" in where:
            raise InputError(f"{assignment!r} sets nothing", "write it like 'transport.retire_evs=false'")
        try:
            value = parse_yaml(f"value: {text}", Path()).data["value"]
            holder: Any = self.data
            for part in where[:-1]:
                holder = holder.setdefault(part, {}) if isinstance(holder, dict) else holder[part]
            holder[where[-1]] = value
        except InputError as error:
            raise InputError(f"{assignment!r} has no value that YAML can read: {error.what}", error.hint) from None
        except (IndexError, TypeError):
            raise InputError(f"{assignment!r} sets nothing", "there is no such place in the file") from None
        self._overrides[where] = assignment

    def validate(self, model: type[Model], extra: Mapping[str, Any] | None = None) -> Model:
        """The checked model. `extra`: values for top-level keys that the file leaves out. Raises InputError."""
        try:
            return model.model_validate({**(extra or {}), **self.data})
        except ValidationError as error:
            raise InputError.several(
                [
                    self.error(detail["loc"], *complaint(detail, model, self._value(detail["loc"], extra)))
                    for detail in error.errors(include_url=False)
                ]
            ) from None

    def _value(self, where: Where, extra: Mapping[str, Any] | None) -> Any:
        """What the person wrote at a place, or what holds it when nothing is there."""
        value: Any = {**(extra or {}), **self.data}
        for part in where:
            inside = part in value if isinstance(value, dict) else isinstance(value, list) and part in range(len(value))
            value = value[part] if inside else value  # a part that is not inside is the tag of a union
        return value

    @staticmethod
    def _known(where: Where, places: Mapping[Where, Any]) -> Where:
        """The longest beginning of `where` that is in `places`, without the tags of unions that pydantic adds."""
        known: Where = ()
        for part in where:
            if any(place[: len(known) + 1] == (*known, part) for place in places):
                known = (*known, part)
        while known and known not in places:
            known = known[:-1]
        return known


def load(path: str | Path, model: type[Model], extra: Mapping[str, Any] | None = None) -> Model:
    """Read and check a YAML file. `extra`: values for top-level keys that the file leaves out.

    Raises InputError, which names file and line of everything that is wrong.
    """
    return read(path).validate(model, extra)


def top_level_keys(path: str | Path) -> set[str]:
    """The keys of the file's mapping, which tell what kind of file it is. Raises InputError as `read`."""
    return set(read(path).data)


def read(path: str | Path) -> Document:
    """Read a YAML file that holds one mapping. Raises InputError."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise InputError(f"larger than {MAX_FILE_BYTES} bytes", "is this the right file?", file=path)
        return parse_yaml(raw.decode("utf-8-sig"), path)
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or str(error)).lower()}", file=path) from None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", "is this the right file?", file=path, line=line) from None


def parse_yaml(text: str, path: Path) -> Document:
    """Parse YAML text that holds one mapping; `path` is what errors name. Raises InputError."""
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        return _Builder(loader, path).document(root)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, path) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"character {error.character:#04x} is not allowed in YAML", file=path, line=line) from None
    except RecursionError:
        raise InputError("nested too deeply", "write it flatter", file=path, line=1) from None
    finally:
        if loader is not None:
            loader.dispose()


def _syntax_error(error: yaml.MarkedYAMLError, path: Path) -> InputError:
    mark = error.problem_mark or error.context_mark
    what = error.problem or error.context or "not YAML"
    hint = ""
    if "'\\t'" in what:
        what, hint = "a tab where YAML wants spaces", "indent with spaces"
    elif "mapping values are not allowed" in what:
        what, hint = "a ':' where no key can be", "check the indentation, and quote text that holds ': '"
    elif "<stream end>" in what:
        what, hint = "the file ends in the middle of something", f"where it ends, {what}"
    elif "single document" in str(error):
        what, hint = "more than one YAML document", "keep one; '---' starts a new one"
    return InputError(what, hint, file=path, line=mark.line + 1 if mark else None)


class _Builder:
    """Node tree of PyYAML -> plain data, with the line of each place; finds duplicate keys."""

    def __init__(self, loader: yaml.SafeLoader, path: Path) -> None:
        self._loader = loader
        self._path = path
        self._lines: dict[Where, int] = {(): 1}
        self._seen: set[int] = set()
        self._errors: list[InputError] = []

    def document(self, root: yaml.Node | None) -> Document:
        if root is None or (isinstance(root, yaml.ScalarNode) and root.value == ""):
            raise InputError("the file is empty", "it has to hold keys and values", file=self._path, line=1)
        if not isinstance(root, yaml.MappingNode):
            raise self._error(root, "not a mapping of keys to values", "write lines like 'key: value'")
        data = self._build(root, ())
        if self._errors:
            raise InputError.several(self._errors)
        return Document(self._path, data, self._lines)

    def _error(self, node: yaml.Node, what: str, hint: str = "") -> InputError:
        return InputError(what, hint, file=self._path, line=node.start_mark.line + 1)

    def _build(self, node: yaml.Node, where: Where) -> Any:
        # A node met again is an alias: without them no file can grow when it is read, and none can hold itself.
        if id(node) in self._seen:
            self._errors.append(self._error(node, "YAML aliases (&, *) are not taken", "write the value out"))
            return None
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, where)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for position, item in enumerate(node.value):
                self._lines[*where, position] = item.start_mark.line + 1
                items.append(self._build(item, (*where, position)))
            return items
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._errors.append(self._error(key_node, "a key has to be a plain word"))
                continue
            key = key_node.value
            if key in mapping:
                first = self._lines[*where, key]
                self._errors.append(
                    self._error(key_node, f"key {key!r} is here twice", f"line {first} has it already; keep one")
                )
                continue
            self._lines[*where, key] = key_node.start_mark.line + 1
            mapping[key] = self._build(value_node, (*where, key))
        return mapping

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            return self._loader.construct_object(node)
        except yaml.constructor.ConstructorError:
            what = f"YAML tag {node.tag!r} is not taken"
        except ValueError as error:  # a date like 2024-13-45
            what = f"{node.value!r} cannot be read: {error}"
        self._errors.append(self._error(node, what, "write plain text or a number"))
        return None
