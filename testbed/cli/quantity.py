"""Quantities with units as arguments and options of verbs, read as in scenario files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class Quantity(click.ParamType):  # type: ignore[type-arg]
    """A value with a unit; `parse` raises ValueError with what would be right."""

    name = "value"

    def __init__(self, parse: Callable[[Any], Any]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See ParamType."""
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _duration_ns(text: Any) -> int:
    from testbed.topology.units import parse_duration_ns

    return parse_duration_ns(text)


DURATION = Quantity(_duration_ns)
