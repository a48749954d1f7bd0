"""The traffic of a scenario file: streams between pairs of hosts, and jobs of ranks (`agents.workloads.programs`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from agents.workloads.numbers import MAX_RANKS, NUMBER_BYTES
from agents.workloads.pattern import MAX_MESSAGE_BYTES
from agents.workloads.programs import KINDS
from testbed.chaos.section import Section, expectations
from testbed.topology.errors import nearest
from testbed.topology.units import DurationNs, SizeBytes, format_size, parse_fraction
from testbed.topology.yamlfile import Problem, refuse

MAX_QPS = 64  # of a pair of hosts
MAX_REPETITIONS = 1_000_000
DEFAULT_RANKS = 8

FlowExpect = expectations(__name__, "FlowExpect", "Limits for the flows of a workload.", lambda row: row.of_flows)


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


Pattern = Literal["across", "permutation", "incast", "victim"]


def _parse_pairs(value: Any) -> Any:
    patterns = get_args(Pattern)
    if isinstance(value, list) and value and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        if all(isinstance(name, str) for pair in value for name in pair):
            return value
    elif value in patterns:
        return value
    hint = nearest(str(value), patterns) or f"write {', '.join(patterns)}, or a list like [[h0, h4]]"
    raise ValueError(f"{value!r} names no pairs of hosts; {hint}")


Pairs = Annotated[Pattern | list[tuple[str, str]], BeforeValidator(_parse_pairs)]


class Workload(Section):
    """Streams of messages between pairs of hosts, each pair over queue pairs of its own."""

    kind: Literal["write_bw"] = Field(description="write_bw: a stream of WRITE messages, each verified at the far end")
    pairs: Pairs = Field(
        default="across",
        description="across: every host to the host at the same place in the next T0 group; permutation: every host to "
        "another one, drawn from the seed; incast: `senders` hosts of other T0 groups to `target`; victim: one more of "
        "these to a neighbour of `target`; or a list of [src, dst]",
    )
    target: str | None = Field(default=None, description="of an incast and its victim: the host that all send to")
    senders: int | None = Field(default=None, ge=1, description="of an incast and its victim: how many send")
    message: SizeBytes = Field(default="32 KB", description="bytes of a message")  # type: ignore[assignment]
    load: Load = Field(
        default=0.7,
        description="share of the host's line rate (all planes, in payload), or full: as fast as it goes",
    )
    qps: int = Field(default=1, ge=1, le=MAX_QPS, description="queue pairs of each pair, which share its load")
    t1s: int | None = Field(
        default=None, ge=1, description="only the first so many T1s of each plane are used (an EV profile says so)"
    )
    expect: FlowExpect = Field(  # type: ignore[valid-type]
        default_factory=FlowExpect, description="what each of its flows is judged by"
    )

    @model_validator(mode="after")
    def _incast_has_its_fields(self) -> Workload:
        wanted = self.pairs in ("incast", "victim")
        for name in ("target", "senders"):
            if wanted and getattr(self, name) is None:
                refuse([Problem(("pairs",), f"{self.pairs!r} needs {name}", "add target: h0 and senders: 3, say")])
            if not wanted and getattr(self, name) is not None:
                refuse([Problem((name,), f"{name} is of an incast or its victim", "leave it out")])
        return self

    @field_validator("message")
    @classmethod
    def _message_can_be_verified(cls, message_bytes: int) -> int:
        if message_bytes > MAX_MESSAGE_BYTES:
            most = format_size(MAX_MESSAGE_BYTES)
            raise ValueError(f"{format_size(message_bytes)} is more than a message can have; write {most} or less")
        return message_bytes


def _one_or_several(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Sizes = Annotated[list[SizeBytes], BeforeValidator(_one_or_several)]


class JobWorkload(Section):
    """A job of ranks, one on each host, which begins when all of them are ready."""

    kind: Literal["write_lat", "sendrecv", "ring_allreduce", "all_to_all", "training"] = Field(
        description="write_lat: back and forth between two; sendrecv: to the next in the ring; ring_allreduce: numbers "
        "are really added up; all_to_all: a part to every other; training: computing, then an all-reduce"
    )
    ranks: int | None = Field(default=None, ge=2, le=MAX_RANKS, description="how many, on the hosts from h0 on")
    hosts: list[str] | None = Field(default=None, description="the host of each rank instead, in the order of the ring")
    message: Sizes = Field(
        default=["256 KB"],  # type: ignore[list-item]
        min_length=1,
        description="bytes that a rank gives to an operation, as in nccl-tests; or a list, one size after the other",
    )
    repetitions: int | None = Field(
        default=None, ge=1, le=MAX_REPETITIONS, description="operations of each size; default: until the run ends"
    )
    qps: int = Field(
        default=1, ge=1, le=MAX_QPS, description="queue pairs of each pair of ranks, which share each message"
    )
    compute: DurationNs = Field(default="0 s", description="of training: the time of a step before its all-reduce")  # type: ignore[assignment]
    restart_cost: DurationNs | None = Field(
        default=None,
        description="what a restart takes after a queue pair died; default: the job ends there",
    )
    expect: FlowExpect = Field(  # type: ignore[valid-type]
        default_factory=FlowExpect, description="what the job and its flows are judged by"
    )

    def placed(self, hosts: Sequence[str]) -> list[str]:
        """The host of each rank, in a lab with these."""
        if self.hosts is not None:
            return list(self.hosts)
        ranks = self.ranks or min(DEFAULT_RANKS, len(hosts), KINDS[self.kind].most_ranks)
        return [f"h{rank}" for rank in range(ranks)]  # `check` says when the lab has fewer

    @model_validator(mode="after")
    def _ranks_make_a_job(self) -> JobWorkload:
        problems = []
        if self.ranks is not None and self.hosts is not None:
            problems.append(Problem(("ranks",), "ranks and hosts both say how many there are", "leave one out"))
        name, ranks = ("ranks", self.ranks) if self.hosts is None else ("hosts", len(self.hosts))
        most = KINDS[self.kind].most_ranks
        if ranks is not None and not 2 <= ranks <= most:
            right = "2" if most == 2 else f"2 to {most}"
            problems.append(Problem((name,), f"{self.kind} with {ranks} ranks", f"it can have {right}"))
        if self.hosts is not None and len(set(self.hosts)) < len(self.hosts):
            problems.append(Problem(("hosts",), "two ranks on one host", "name each host once"))
        if len(self.message) > 1 and self.repetitions is None:
            what = "nothing says when the first of the sizes is over"
            problems.append(Problem(("message",), what, "add repetitions, like 'repetitions: 20'"))
        if self.compute and self.kind != "training":
            problems.append(Problem(("compute",), f"{self.kind} computes nothing", "leave it out, or make it training"))
        for place, size in enumerate(self.message):
            where = ("message", place) if len(self.message) > 1 else ("message",)
            if not 1 <= size <= MAX_MESSAGE_BYTES:
                hint = f"write {format_size(MAX_MESSAGE_BYTES)} or less" if size else "write 4 B or more"
                problems.append(Problem(where, f"a message of {format_size(size)}", hint))
            elif KINDS[self.kind].of_numbers and size % NUMBER_BYTES:
                problems.append(
                    Problem(where, f"{size} bytes are no whole numbers", f"write a multiple of {NUMBER_BYTES} bytes")
                )
        refuse(problems)
        return self
