"""Scenario files (`scenarios/*.yaml`): traffic, faults on a timeline, and what is expected of the run.

Here is the schema, and what a file can be refused for by itself. `check` holds it against the lab that it is to run on,
before anything is started. Every complaint names file and line (`testbed.topology.yamlfile`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    WithJsonSchema,
    create_model,
    model_validator,
)

from testbed.chaos.expectations import EXPECTATIONS, Limit
from testbed.chaos.kinds import KINDS
from testbed.chaos.kinds.kind import End
from testbed.chaos.kinds.options import OPTIONS, Option
from testbed.chaos.probing import HealthOverride
from testbed.chaos.section import Section, expectations
from testbed.chaos.workload import JobWorkload, Workload
from testbed.topology import library, yamlfile
from testbed.topology.labspec import LabSpec
from testbed.topology.transportspec import Transport
from testbed.topology.units import DurationNs
from testbed.topology.yamlfile import Document, Problem, refuse

MAX_SEED = (1 << 32) - 1
MAX_FAULTS = 10_000  # of one entry; more is a slip of the pen


FaultExpect = expectations(__name__, "FaultExpect", "Limits for each fault of an entry.", lambda row: row.of_faults)
Expect = expectations(__name__, "Expect", "Limits that the run is judged by.", lambda row: True)


def _option_field(option: Option) -> tuple[Any, Any]:
    """(type, field) of an option in a fault's entry; not given: None."""
    if option.is_duration:
        return DurationNs | None, Field(default=None, description=option.doc)
    parse = BeforeValidator(lambda value: None if value is None else option.parse(value))
    text = WithJsonSchema({"type": "string", "examples": [option.example]})
    return Annotated[Any, parse, text], Field(default=None, description=option.doc)


_OPTION_FIELDS: dict[str, Any] = {option.name: _option_field(option) for option in OPTIONS.values()}
_Options: Any = create_model("_Options", __base__=Section, __doc__="Options of all kinds.", **_OPTION_FIELDS)


class FaultEntry(_Options):  # type: ignore[misc]
    """A fault; with `every` and `count` again and again, or with `mtbf` and `mttr` at random times."""

    kind: str = Field(description="what happens, like link-down")
    target: str = Field(description="what it happens to, like p0t0-1:p0t1-3 or 'links tier=t0-t1 plane=0 pick=2'")
    end: End | None = Field(default=None, description="the end that acts, near being the lower tier")
    at: DurationNs = Field(default="0 s", description="when (first), from the start of the traffic")  # type: ignore[assignment]
    for_: DurationNs | None = Field(
        default=None, alias="for", description="how long; default: the kind's, or to the end of the run"
    )
    every: DurationNs | None = Field(default=None, description="from one time to the next, with count")
    count: int = Field(default=1, ge=1, le=MAX_FAULTS, description="how many times")
    jitter: DurationNs | None = Field(default=None, description="each time is earlier or later by up to this much")
    mtbf: DurationNs | None = Field(
        default=None, description="mean time from a repair to the next failure of each link, switch or host on its own"
    )
    mttr: DurationNs | None = Field(default=None, description="mean time from a failure to its repair, with mtbf")
    expect: FaultExpect = Field(  # type: ignore[valid-type]
        default_factory=FaultExpect, description="what each of these faults is judged by"
    )

    @property
    def options(self) -> dict[str, Any]:
        """The options that were given, parsed."""
        return {name: value for name in OPTIONS if (value := getattr(self, name)) is not None}

    @property
    def lasts_ns(self) -> int | None:
        """How long each lasts; None: to the end of the run."""
        return self.for_ if self.for_ is not None or self.kind not in KINDS else KINDS[self.kind].lasts_ns

    @property
    def by_chance(self) -> bool:
        """Whether the seed has a say in when or where it happens."""
        return self.mtbf is not None or self.jitter is not None or "pick=" in self.target

    @model_validator(mode="after")
    def _repeats_make_sense(self) -> FaultEntry:
        problems = [] if self.mtbf is None and self.mttr is None else list(self._random_problems())
        if self.mtbf is None and "at" not in self.model_fields_set:
            problems.append(Problem((), "nothing says when the fault begins", "add at, like 'at: 3 s'"))
        if self.count > 1 and self.every is None:
            problems.append(Problem(("count",), f"count is {self.count}, but nothing says how often", "add every"))
        if self.count > 1 and self.lasts_ns is None:
            problems.append(Problem(("count",), f"count is {self.count}, but the fault never ends", "add for"))
        if self.count == 1 and self.every is not None:
            problems.append(Problem(("every",), "every is given, but count is 1", "add count"))
        if self.for_ == 0:
            problems.append(Problem(("for",), "the fault ends when it begins", "make for longer than 0"))
        place = ("every",) if self.for_ is None else ("for",)
        if self.count > 1 and self.every and self.lasts_ns and self.lasts_ns >= self.every:
            problems.append(Problem(place, "the next one begins before this one ends", "make for less than every"))
        refuse(problems)
        return self

    def _random_problems(self) -> Iterator[Problem]:
        for name, other in (("mtbf", "mttr"), ("mttr", "mtbf")):
            value = getattr(self, name)
            if value == 0:
                yield Problem((name,), f"{name} is 0", "make it longer")
            if value is not None and getattr(self, other) is None:
                yield Problem((name,), f"{name} is given without {other}", f"add {other}")
        for name in ("for", "every", "count", "jitter"):
            if {"for": "for_"}.get(name, name) in self.model_fields_set:
                yield Problem((name,), f"{name} says when, and so do mtbf and mttr", f"leave {name} out")


class Scenario(Section):
    """A scenario file, checked as far as it can be without its lab."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[a-z][a-z0-9-]{0,59}$", description="small letters, digits and dashes; default: the file's name"
        ),
    ]
    lab: str = Field(
        default="demo", description="a lab file, looked for beside this file first, or the name of one in topologies/"
    )
    seed: int = Field(default=1, ge=0, le=MAX_SEED, description="everything random in the run comes from it")
    duration: DurationNs = Field(description="how long traffic is sent")
    warmup: DurationNs = Field(default="1 s", description="at the start, not measured")  # type: ignore[assignment]
    transport: Transport = Field(default_factory=Transport, description="overrides of the lab's transport defaults")
    health: HealthOverride = Field(default_factory=HealthOverride, description="overrides of the lab's health section")
    workloads: list[Annotated[Workload | JobWorkload, Field(discriminator="kind")]] = Field(
        min_length=1, description="the traffic: streams (write_bw), or jobs of ranks"
    )
    faults: list[FaultEntry] = Field(default_factory=list, description="what breaks, and when")
    expect: Expect = Field(default_factory=Expect, description="what the run is judged by")  # type: ignore[valid-type]

    _document: Document | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _has_measured_time(self) -> Scenario:
        if self.warmup >= self.duration:
            refuse([Problem(("warmup",), "the warm-up is not shorter than the run", "make duration longer")])
        return self

    @property
    def limits(self) -> list[Limit]:
        """The expectations of the file: of the run, of its faults, of the flows of its workloads."""
        return [
            *_limits(self.expect),
            *(limit for number, entry in enumerate(self.faults) for limit in _limits(entry.expect, fault=number)),
            *(limit for number, work in enumerate(self.workloads) for limit in _limits(work.expect, workload=number)),
        ]

    def transport_of(self, lab: LabSpec) -> Transport:
        """The lab's transport settings with this scenario's overrides."""
        overrides = {name: getattr(self.transport, name) for name in self.transport.model_fields_set}
        return lab.transport.model_copy(update=overrides)


def _limits(section: BaseModel, **place: int) -> list[Limit]:
    """In the table's order; counts, fractions, ns."""
    values = {name: getattr(section, name) for name in EXPECTATIONS if name in type(section).model_fields}
    return [Limit(name, limit, **place) for name, limit in values.items() if limit is not None]


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
    return _with_lab_beside(scenario, path)


def _with_lab_beside(scenario: Scenario, path: Path) -> Scenario:
    """A lab file is looked for beside its scenario first, wherever that is read from."""
    if scenario.lab in library.names("topologies") or not library.is_there(
        beside := path.parent / scenario.lab, file=True
    ):
        return scenario
    found = scenario.model_copy(update={"lab": str(beside)})
    found._document = scenario._document
    return found


def schema() -> dict[str, Any]:
    """The JSON schema of a scenario file. `name` is not required, because it defaults to the file's."""
    document = Scenario.model_json_schema()
    document["required"].remove("name")
    return document
