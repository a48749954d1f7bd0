"""Quantities with units, as people write them in lab and scenario files: `20 Mb/s`, `128 KB`, `10 ms`, `70%`.

A number without a unit is refused, because it would be a guess. Rates are bits per second, sizes bytes
(KB = 1024), durations nanoseconds, fractions 0..1.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z/%]*)\s*")

RATE_UNITS = {"b/s": 1, "Kb/s": 10**3, "Mb/s": 10**6, "Gb/s": 10**9, "Tb/s": 10**12}
SIZE_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
DURATION_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
MAX_QUANTITY = 1 << 62  # b/s, bytes, ns: two of them added are within 64 bits


def _parse(value: Any, units: dict[str, int], what: str, example: str) -> int:
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a {what}; write it like {example!r}")
    number, unit = match.groups()
    if unit not in units:
        raise ValueError(f"{value!r} has no unit of a {what} ({', '.join(units)}); write it like {example!r}")
    scaled = float(number) * units[unit]
    if scaled > MAX_QUANTITY:
        raise ValueError(f"{value!r} is beyond any {what}; write it like {example!r}")
    return round(scaled)


def parse_rate_bps(value: Any) -> int:
    """`20 Mb/s` -> 20000000. Raises ValueError with what would be right."""
    return _parse(value, RATE_UNITS, "rate", "20 Mb/s")


def parse_size_bytes(value: Any) -> int:
    """`128 KB` -> 131072. Raises ValueError with what would be right."""
    return _parse(value, SIZE_UNITS, "size", "128 KB")


def parse_duration_ns(value: Any) -> int:
    """`10 ms` -> 10000000. Raises ValueError with what would be right."""
    return _parse(value, DURATION_UNITS, "duration", "10 ms")


def parse_fraction(value: Any) -> float:
    """`70%` -> 0.7, and a plain number 0..1 stays what it is. Raises ValueError with what would be right."""
    number: float | None = None
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value)) and match[2] == "%":
        number = float(match[1]) / 100
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    if number is None or not 0 <= number <= 1:
        raise ValueError(f"{value!r} is not a fraction; write it like '70%' or 0.7, from 0 to 1")
    return number


def format_rate(bps: float) -> str:
    """20000000 -> `20 Mb/s`."""
    for unit, factor in reversed(RATE_UNITS.items()):
        if bps >= factor:
            return f"{bps / factor:.4g} {unit}"
    return f"{bps:.4g} b/s"


def format_size(size_bytes: int) -> str:
    """131072 -> `128 KB`."""
    for unit, factor in reversed(SIZE_UNITS.items()):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes} B"


def format_duration(ns: float) -> str:
    """12300000 -> `12.3 ms`."""
    for unit, factor in reversed(DURATION_UNITS.items()):
        if abs(ns) >= factor and unit not in ("h", "min"):
            return f"{ns / factor:.3g} {unit}"
    return "0 s"


def _quantity(parse: Any, example: str, unit: str) -> tuple[Any, Any, Any]:
    """As JSON a quantity has its unit again, so that what was written can be read back."""
    return (
        BeforeValidator(parse),
        WithJsonSchema({"type": "string", "examples": [example]}),
        PlainSerializer(lambda value: f"{value} {unit}", return_type=str, when_used="json-unless-none"),
    )


RateBps = Annotated[int, *_quantity(parse_rate_bps, "20 Mb/s", "b/s")]
SizeBytes = Annotated[int, *_quantity(parse_size_bytes, "128 KB", "B")]
DurationNs = Annotated[int, *_quantity(parse_duration_ns, "10 ms", "ns")]
Fraction = Annotated[
    float,
    BeforeValidator(parse_fraction),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "examples": ["70%"]}]}
    ),
]
