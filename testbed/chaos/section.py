"""What every section of a scenario file is: checked, frozen, without unknown keys; and sections of expectations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from testbed.chaos.expectations import EXPECTATIONS, Expectation


class Section(BaseModel):
    """The base of all sections."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


def expectations(module: str, name: str, doc: str, takes: Callable[[Expectation], bool]) -> Any:
    """A section with the expectations that make sense at one place of a scenario.

    It is to be found as `name` in `module`: a campaign hands scenarios to other processes.
    """
    rows: dict[str, Any] = {row.name: row.field() for row in EXPECTATIONS.values() if takes(row)}
    return create_model(name, __base__=Section, __doc__=doc, __module__=module, **rows)
