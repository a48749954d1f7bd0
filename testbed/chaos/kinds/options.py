"""The options that kinds of faults take, as data: in scenario files by name, on the command line as `--name`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.topology.units import (
    format_duration,
    parse_duration_ns,
    parse_fraction,
)


def _parse_what(value: Any) -> str:
    if value not in ("data", "all"):
        raise ValueError(f"{value!r} is no kind of packets; write 'data' or 'all'")
    return str(value)


def _parse_share(value: Any) -> float:
    share = parse_fraction(value)
    if share == 0:
        raise ValueError("0 is nothing; write a fraction like '25%', above 0")
    return share


def _percent(value: Any) -> str:
    return f"{100 * value:.6g}%"


@dataclass(frozen=True, slots=True)
class Option:
    """`parse` takes what a person wrote (ValueError says what would be right), `show` writes it for people."""

    name: str
    doc: str
    example: str
    parse: Callable[[Any], Any]
    show: Callable[[Any], str]

    @property
    def is_duration(self) -> bool:
        """Whether its values are times."""
        return self.parse is parse_duration_ns


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("loss", "share of the packets that is lost, drawn for each packet", "1%", _parse_share, _percent),
        Option("share", "share of the data that is spoilt, drawn for each packet", "1%", _parse_share, _percent),
        Option("rate", "share of the link's rate that is left", "25%", _parse_share, _percent),
        Option("delay", "added to the time that the link takes", "2 ms", parse_duration_ns, format_duration),
        Option("delay_jitter", "how far the delay varies either way", "1 ms", parse_duration_ns, format_duration),
        Option("what", "data: control packets and probes pass; all: nothing does", "all", _parse_what, str),
    )
}

Values = Mapping[str, Any]  # of the options that a fault was given, parsed: fractions, ns, words
