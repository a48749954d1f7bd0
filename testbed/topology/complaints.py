"""What pydantic found wrong, in words for a person: (what, hint) for each of its error types."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from testbed.topology.errors import nearest

_MAX_SHOWN = 40

# Error type of pydantic -> (what, hint), filled in with {key}, {value} and pydantic's own {ge}, {expected}, ...
_WORDS = {
    "greater_than_equal": ("{key} is {value}, less than {ge}", "write {ge} or more: {description}"),
    "less_than_equal": ("{key} is {value}, more than {le}", "write {le} or less: {description}"),
    "greater_than": ("{key} is {value}, not more than {gt}", "write more than {gt}: {description}"),
    "less_than": ("{key} is {value}, not less than {lt}", "write less than {lt}: {description}"),
    "int_type": ("{key} is {value}, not a whole number", "write a whole number: {description}"),
    "int_parsing": ("{key} is {value}, not a whole number", "write a whole number: {description}"),
    "int_from_float": ("{key} is {value}, not a whole number", "write a whole number: {description}"),
    "float_type": ("{key} is {value}, not a number", "write a number: {description}"),
    "float_parsing": ("{key} is {value}, not a number", "write a number: {description}"),
    "finite_number": ("{key} is {value}, not a finite number", "{description}"),
    "bool_type": ("{key} is {value}, not true or false", "write true or false: {description}"),
    "bool_parsing": ("{key} is {value}, not true or false", "write true or false: {description}"),
    "string_type": ("{key} is {value}, not text", "write text: {description}"),
    "string_pattern_mismatch": ("{key} is {value}, not such a name", "write {description}"),
    "string_too_long": ("{key} is {value}, longer than {max_length} characters", "write {description}"),
    "list_type": ("{key} is {value}, not a list", "write it as lines that begin with '- '"),
    "tuple_type": ("{key} is {value}, not a list", "write it like [h0, h4]"),
    "dict_type": ("{key} is {value}, not a mapping", "write keys and values below it"),
    "model_type": ("{key} is {value}, not a section", "write keys and values below it: {keys}"),
    "too_short": ("{key} has {actual_length} entries", "write at least {min_length}"),
    "too_long": ("{key} has {actual_length} entries", "write at most {max_length}"),
}


def complaint(detail: ErrorDetails, model: type[BaseModel], value: Any) -> tuple[str, str]:
    """(what, hint) for one error of `model`'s validation; `value` is what the person wrote at its place."""
    kind, where, context = detail["type"], detail["loc"], detail.get("ctx", {})
    models, place = _walk(model, where)
    key = repr(_dotted(place)) if place else "the file"
    if kind == "refused":
        return str(context["what"]), str(context["hint"])
    if kind == "value_error":
        return f"{key}: {context['error']}", ""
    if kind == "extra_forbidden":
        valid = _keys(_walk(model, where[:-1])[0])
        return f"unknown key {where[-1]!r}", nearest(str(where[-1]), valid) or f"valid here: {', '.join(valid)}"
    holders = _walk(model, where[:-1])[0]
    description = _description(holders, where[-1]) if where else ""
    if kind == "missing":
        return f"key {key} is missing", f"add it: {description}" if description else "add it"
    if kind == "literal_error":
        return _not_one_of(key, value, _choices(holders, where[-1]))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        discriminator = str(context["discriminator"]).strip("'")
        return _not_one_of(repr(_dotted([*place, discriminator])), context.get("tag"), _choices(models, discriminator))
    if kind not in _WORDS:
        return f"{key}: {detail['msg'][:1].lower()}{detail['msg'][1:]}", description
    what, hint = _WORDS[kind]
    limits = {name: f"{limit:g}" if isinstance(limit, float) else limit for name, limit in context.items()}
    words = {**limits, "key": key, "value": _shown(value), "description": description}
    words["keys"] = ", ".join(_keys(models))
    return what.format(**words), hint.format(**words).removesuffix(": ")


def _not_one_of(key: str, value: Any, choices: list[str]) -> tuple[str, str]:
    what = f"{key} is missing" if value is None else f"{key} is {_shown(value)}"
    return what, nearest(str(value), choices) or f"write {' or '.join(choices)}"


def _dotted(where: Iterable[str | int]) -> str:
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _shown(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation names, however deep in lists, unions and Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _walk(model: type[BaseModel], where: Iterable[str | int]) -> tuple[list[type[BaseModel]], list[str | int]]:
    """The models that may stand at a place, and the place as a person would name it.

    A part that is no key is the tag of a union, put in by pydantic: it narrows the choice, and no person wrote it.
    """
    models: list[type[BaseModel]] = [model]
    place: list[str | int] = []
    for part in where:
        fields = [field for each in models if (field := _field(each, part))]
        chosen = [each for each in models if part in _tags(each)]
        if chosen and not fields:
            models = chosen
            continue
        place.append(part)
        if not isinstance(part, int):
            models = [inner for field in fields for inner in _models(field.annotation)]
    return models, place


def _field(model: type[BaseModel], key: str | int) -> FieldInfo | None:
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            return field
    return None


def _tags(model: type[BaseModel]) -> set[str]:
    return {choice for field in model.model_fields.values() for choice in _literals(field.annotation)}


def _literals(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    if get_origin(annotation) in (Union, types.UnionType):
        return [choice for part in get_args(annotation) for choice in _literals(part)]
    return []


def _keys(models: Iterable[type[BaseModel]]) -> list[str]:
    return list(dict.fromkeys(field.alias or name for model in models for name, field in model.model_fields.items()))


def _description(models: Iterable[type[BaseModel]], key: str | int) -> str:
    for model in models:
        if (field := _field(model, key)) and field.description:
            return field.description
    return ""


def _choices(models: Iterable[type[BaseModel]], key: str | int) -> list[str]:
    return [choice for model in models if (field := _field(model, key)) for choice in _literals(field.annotation)]
