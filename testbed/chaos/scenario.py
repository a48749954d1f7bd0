"""Scenario files (`scenarios/*.yaml`): traffic, faults on a timeline, and what is expected of the run.

Here is the schema, and what a file can be refused for by itself. `check` holds it against the lab that it is to run on,
before anything is started. Every complaint names file and line (`testbed.topology.yamlfile`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    WithJsonSchema,
    create_model,
    model_validator,
)

from testbed.chaos.expectations import EXPECTATIONS
from testbed.chaos.kinds.kind import End
from testbed.topology import library, yamlfile
from testbed.topology.labspec import LabSpec, Transport
from testbed.topology.units import DurationNs, SizeBytes, parse_fraction
from testbed.topology.yamlfile import Document, Problem, refuse

MAX_SEED = (1 << 32) - 1
MAX_FAULTS = 10_000  # of one entry; more is a slip of the pen


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


def _parse_load(value: Any) -> float | Literal["full"]:
    if value == "full":
        return "full"
    load = parse_fraction(value)
    if load == 0:
        raise ValueError("a load of 0 sends nothing; write 'full' or a fraction like '70%'")
    return load


Load = Annotated[
    float | Literal["full"],
    BeforeValidator(_parse_load),
    WithJsonSchema({"anyOf": [{"const": "full"}, {"type": "string", "examples": ["70%"]}]}),
]


class Workload(_Section):
    """Traffic between pairs of hosts, each pair over a queue pair of its own."""

    kind: Literal["write_bw"] = Field(description="write_bw: a stream of WRITE messages, each verified at the far end")
    pairs: Literal["across"] | list[tuple[str, str]] = Field(
        default="across",
        description="across: every host to the host at the same place in the next T0 group; or a list of [src, dst]",
    )
    message: SizeBytes = Field(default="32 KB", description="bytes of a message")  # type: ignore[assignment]
    load: Load = Field(
        default=0.7,
        description="share of the host's line rate (all planes, in payload), or full: as fast as it goes",
    )


class FaultEntry(_Section):
    """A fault, or with `every` and `count` the same one again and again."""

    kind: str = Field(description="what happens, like link-down")
    target: str = Field(description="the link that it happens to, like p0t0-1:p0t1-3")
    end: End = Field(default="near", description="the end that is switched off; near is the lower tier")
    at: DurationNs = Field(description="when, from the start of the traffic")
    for_: DurationNs | None = Field(default=None, alias="for", description="how long; default: to the end of the run")
    every: DurationNs | None = Field(default=None, description="from one time to the next, with count")
    count: int = Field(default=1, ge=1, le=MAX_FAULTS, description="how many times")

    @model_validator(mode="after")
    def _repeats_make_sense(self) -> FaultEntry:
        problems = []
        if self.count > 1 and self.every is None:
            problems.append(Problem(("count",), f"count is {self.count}, but nothing says how often", "add every"))
        if self.count > 1 and self.for_ is None:
            problems.append(Problem(("count",), f"count is {self.count}, but the fault never ends", "add for"))
        if self.count == 1 and self.every is not None:
            problems.append(Problem(("every",), "every is given, but count is 1", "add count"))
        if self.for_ == 0:
            problems.append(Problem(("for",), "the fault ends when it begins", "make for longer than 0"))
        if self.count > 1 and self.every and self.for_ and self.for_ >= self.every:
            problems.append(Problem(("for",), "the next one begins before this one ends", "make for less than every"))
        refuse(problems)
        return self


_EXPECT_FIELDS: dict[str, Any] = {name: row.field() for name, row in EXPECTATIONS.items()}
Expect = create_model("Expect", __base__=_Section, __doc__="Limits that the run is judged by.", **_EXPECT_FIELDS)


class Scenario(_Section):
    """A scenario file, checked as far as it can be without its lab."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,59}$", description="default: the file's name")]
    lab: str = Field(default="demo", description="a lab file, or the name of one in topologies/")
    seed: int = Field(default=1, ge=0, le=MAX_SEED, description="everything random in the run comes from it")
    duration: DurationNs = Field(description="how long traffic is sent")
    warmup: DurationNs = Field(default="1 s", description="at the start, not measured")  # type: ignore[assignment]
    transport: Transport = Field(default_factory=Transport, description="overrides of the lab's transport defaults")
    workloads: list[Workload] = Field(min_length=1, description="the traffic")
    faults: list[FaultEntry] = Field(default_factory=list, description="what breaks, and when")
    expect: Expect = Field(default_factory=Expect, description="what the run is judged by")  # type: ignore[valid-type]

    _document: Document | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _has_measured_time(self) -> Scenario:
        if self.warmup >= self.duration:
            refuse([Problem(("warmup",), "the warm-up is not shorter than the run", "make duration longer")])
        return self

    @property
    def limits(self) -> dict[str, float]:
        """The expectations of the file, by name: counts, fractions, ns."""
        return {name: limit for name in EXPECTATIONS if (limit := getattr(self.expect, name)) is not None}

    def transport_of(self, lab: LabSpec) -> Transport:
        """The lab's transport settings with this scenario's overrides."""
        overrides = {name: getattr(self.transport, name) for name in self.transport.model_fields_set}
        return lab.transport.model_copy(update=overrides)


def load_scenario(path_or_name: str | Path, overrides: Iterable[str] = ()) -> Scenario:
    """Read and check a scenario file or one in `scenarios/`; `overrides` are texts like `transport.retire_evs=false`.

    Raises InputError with file and line (or the override) of everything that is wrong.
    """
    path = library.find("scenarios", path_or_name)
    document = yamlfile.read(path)
    for assignment in overrides:
        document.override(assignment)
    scenario = document.validate(Scenario, extra={"name": path.stem})
    scenario._document = document
    return scenario


def schema() -> dict[str, Any]:
    """The JSON schema of a scenario file. `name` is not required, because it defaults to the file's."""
    document = Scenario.model_json_schema()
    document["required"].remove("name")
    return document
