"""What is compared, as data: for each column the lab that follows from the scenario's, and the scenario as run there.

Every host has the same bandwidth in all columns. MRC has the scenario's lab with its planes; RoCE has one plane whose
links have the rates of all planes together, as its NICs cannot use several. Faults that name a plane name the only one
there. RoCE is tried with several numbers of queue pairs and settings of its rate control (`Variant`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from testbed.chaos import check
from testbed.chaos.scenario import Expect, FaultExpect, Scenario
from testbed.chaos.workload import FlowExpect
from testbed.compare import timeout
from testbed.topology import clos
from testbed.topology.errors import InputError, nearest
from testbed.topology.labspec import LabSpec
from testbed.topology.transportspec import SETTINGS, Transport

QP_COUNTS = (1, 8, 16)  # of each pair, as in the paper's figures 16 and 17
DCQCN_PROFILES = ("published", "vendor", "gentle", "eager")


@dataclass(frozen=True, slots=True)
class Column:
    """One of the things that are compared."""

    name: str
    words: str
    kind: Literal["mrc", "roce"]
    routing: Literal["srv6", "ecmp", "bgp"]
    one_plane: bool = False
    routed: dict[str, Any] = field(default_factory=dict)  # of the lab's section `bgp`
    in_virtual_time: bool = True


COLUMNS = {
    column.name: column
    for column in (
        Column("mrc", "MRC over static SRv6 paths", "mrc", "srv6"),
        Column("mrc-ecmp", "MRC whose EVs the switches hash", "mrc", "ecmp"),
        Column("roce", "RoCEv2, DCQCN, ECMP", "roce", "ecmp", one_plane=True),
        Column("roce-bgp", "RoCEv2, DCQCN, BGP with BFD", "roce", "bgp", one_plane=True, in_virtual_time=False),
        Column(
            "roce-nobfd",
            "RoCEv2, DCQCN, BGP without BFD",
            "roce",
            "bgp",
            one_plane=True,
            routed={"bfd": False},
            in_virtual_time=False,
        ),
    )
}
EXPECTED = "mrc"  # what a scenario expects is expected of this one; of the others only that no byte is wrong
BY_DEFAULT = ("mrc", "mrc-ecmp", "roce", "roce-bgp")


@dataclass(frozen=True, slots=True)
class Variant:
    """How a column's transport is set; MRC's only one leaves everything as the scenario has it."""

    qps: int | None = None
    dcqcn: str | None = None
    timeout_exponent: int | None = None  # None: that of lab or scenario

    @property
    def name(self) -> str:
        """For people."""
        if self.qps is None:
            return "as it is"
        name = f"{self.qps} QP{'s' if self.qps > 1 else ''}, {self.dcqcn}"
        return name if self.timeout_exponent is None else f"{name}, timeout {timeout.words(self.timeout_exponent)}"

    def file_name(self, column: Column, seed: int) -> str:
        """Of the result of a run, without its ending."""
        setting = "" if self.qps is None else f"-{self.qps}-{self.dcqcn}"
        if self.timeout_exponent is not None:
            setting += f"-timeout-{self.timeout_exponent}"
        return f"{column.name}{setting}-seed-{seed}"


@dataclass(frozen=True)
class Entry:
    """A column on its lab: what runs there, by variant; `mapped`: targets of faults as they are written there.

    `tried` are all tried; `sooner` has the best of them with the shortest timeout as well, where none is asked for.
    """

    column: Column
    spec: LabSpec
    scenarios: dict[Variant, Scenario]
    mapped: dict[str, str]
    sooner: dict[Variant, Variant]

    @property
    def tried(self) -> list[Variant]:
        """All variants that are tried in any case."""
        return [variant for variant in self.scenarios if variant.timeout_exponent is None]


def find(names: Iterable[str]) -> list[Column]:
    """The columns of these names. Raises InputError with the nearest one."""
    found = []
    for name in names:
        if name not in COLUMNS:
            raise InputError(
                f"there is no column {name!r}", nearest(name, COLUMNS) or f"there are {', '.join(COLUMNS)}"
            )
        found.append(COLUMNS[name])
    return found


def variants(column: Column, qps: Iterable[int], profiles: Iterable[str]) -> list[Variant]:
    """The ways in which a column is tried."""
    if column.kind == "mrc":
        return [Variant()]
    profiles = list(profiles)
    for name in profiles:
        if name not in DCQCN_PROFILES:
            raise InputError(f"no DCQCN profile is called {name!r}", f"there are {', '.join(DCQCN_PROFILES)}")
    return [Variant(number, profile) for number in qps for profile in profiles]


def entry(column: Column, scenario: Scenario, spec: LabSpec, tried: Iterable[Variant]) -> Entry:
    """A column of a comparison. Raises InputError when the scenario cannot run there."""
    lab = lab_of(column, spec)
    mapped = {} if not column.one_plane else {one.target: _in_one_plane(one.target) for one in scenario.faults}
    tried = list(tried)
    least = timeout.least_exponent(lab)
    sooner = {}
    if column.kind == "roce" and not timeout.is_set(spec, scenario) and least < lab.transport.timeout_exponent:
        sooner = {variant: replace(variant, timeout_exponent=least) for variant in tried}
    found = {variant: _scenario(column, scenario, lab, mapped, variant) for variant in [*tried, *sooner.values()]}
    for one in found.values():
        check.check(one, clos.build(lab))
    return Entry(column, lab, found, {old: new for old, new in mapped.items() if old != new}, sooner)


def lab_of(column: Column, spec: LabSpec) -> LabSpec:
    """The lab of a column: as much bandwidth for each host, and between racks, as the scenario's."""
    data = spec.model_dump(mode="json", exclude_unset=True, exclude={"bgp", "radix"})
    data |= {"name": f"co-{column.name}", "routing": column.routing}
    written = data.get("transport", {})
    data["transport"] = {name: written[name] for name in SETTINGS[column.kind] if name in written}
    data["transport"]["kind"] = column.kind
    if column.one_plane:
        data["planes"] = 1
        for section in ("rates", "stands_for"):
            rates = getattr(spec, section)
            data[section] = {name: f"{spec.planes * getattr(rates, name)} b/s" for name in ("host", "fabric")}
    if column.routing == "bgp":
        data["bgp"] = column.routed
    return LabSpec.model_validate(data)


def _scenario(column: Column, scenario: Scenario, lab: LabSpec, mapped: dict[str, str], variant: Variant) -> Scenario:
    kept = scenario.transport.model_fields_set & set(SETTINGS[column.kind])
    settings = {name: getattr(scenario.transport, name) for name in kept}
    settings["kind"] = column.kind
    if variant.dcqcn is not None:
        settings["dcqcn"] = variant.dcqcn
    if variant.timeout_exponent is not None:
        settings["timeout_exponent"] = variant.timeout_exponent
    transport = Transport().model_copy(update=settings)
    transport.__pydantic_fields_set__.clear()
    transport.__pydantic_fields_set__.update(settings)
    workloads = scenario.workloads
    if variant.qps is not None:
        workloads = [work.model_copy(update={"qps": variant.qps}) for work in workloads]
    faults = [one.model_copy(update={"target": mapped.get(one.target, one.target)}) for one in scenario.faults]
    changes = {"lab": lab.name, "transport": transport, "workloads": workloads, "faults": faults}
    if column.name != EXPECTED:
        changes |= {
            "expect": Expect(bytes_wrong=0),
            "workloads": [work.model_copy(update={"expect": FlowExpect()}) for work in workloads],
            "faults": [one.model_copy(update={"expect": FaultExpect()}) for one in faults],
        }
    copy = scenario.model_copy(update=changes)
    copy._document = None  # its lines are those of the scenario's own lab, and workers could not take it
    return copy


def _in_one_plane(target: str) -> str:
    """A fault's target with the only plane instead of the one that it names."""
    target = re.sub(r"\bp\d+(t[01]-\d+)", r"p0\1", target)
    return re.sub(r"\bplane([ =])\d+", r"plane\g<1>0", target)
