"""The same lab and scenario in faster time: what takes a second on a lab of 20 Mb/s takes 200 us at 100 Gb/s.

Sizes stay what they are and rates become those that the lab stands for, so every duration in either file is divided by
the time dilation. The fields that are durations are known by their type (`units.DurationNs`).
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from pydantic import BaseModel

from testbed.topology.labspec import LabSpec, Rates
from testbed.topology.units import parse_duration_ns

Section = TypeVar("Section", bound=BaseModel)


def faster(section: Section, times: float) -> Section:
    """A copy of a checked section with every duration in it, however deep, divided by `times`."""
    changes: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            changes[name] = faster(value, times)
        elif isinstance(value, list):
            changes[name] = [faster(one, times) if isinstance(one, BaseModel) else one for one in value]
        elif value is not None and _is_duration(field.annotation, field.metadata):
            changes[name] = round(value / times)
    # Which fields a file has set matters (overrides of the lab's transport): these stay as they were.
    written = set(section.model_fields_set)
    copy = section.model_copy(update=changes)
    copy.__pydantic_fields_set__.clear()
    copy.__pydantic_fields_set__.update(written)
    return copy


def at_real_rates(spec: LabSpec) -> LabSpec:
    """The lab at the rates that it stands for; its time dilation is 1 then."""
    real = spec.stands_for
    rates = Rates.model_construct(host=real.host, fabric=real.fabric)  # may be more than a kernel can emulate
    return faster(spec, spec.time_dilation).model_copy(update={"rates": rates})


def _is_duration(annotation: Any, metadata: Any) -> bool:
    """Whether a field holds a DurationNs, or one or None: by the function that reads it."""
    if any(getattr(one, "func", None) is parse_duration_ns for one in metadata):
        return True
    return any(_is_duration(part, getattr(part, "__metadata__", ())) for part in get_args(annotation))
