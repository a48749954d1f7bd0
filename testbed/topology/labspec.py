"""The schema of a lab file (`topologies/*.yaml`): what a person may say about a lab, and what is refused.

Loading with file and line is `labfile`'s; the Clos that follows from it is `clos`'s.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.topology.units import DurationNs, RateBps, SizeBytes


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class Rates(_Section):
    """Emulated line rates, per port and direction."""

    host: RateBps = Field(default="20 Mb/s", description="NIC-T0 links")  # type: ignore[assignment]
    fabric: RateBps = Field(default="20 Mb/s", description="T0-T1 links")  # type: ignore[assignment]


class Queue(_Section):
    """The queue of every switch port."""

    size: SizeBytes = Field(default="2 MB", description="bytes a port can hold before it drops")  # type: ignore[assignment]


class Transport(_Section):
    """Defaults of the queue pairs; a scenario may override them."""

    evs_per_plane: int | None = Field(
        default=None, ge=1, le=32, description="EVs in use per plane; default: every path, at most 256 in all"
    )
    window: SizeBytes = Field(default="256 KB", description="bytes in flight per queue pair (fixed window)")  # type: ignore[assignment]
    ev_min_active: int = Field(default=1, ge=1, description="no EV is retired below this number per queue pair")
    retire_evs: bool = Field(default=True, description="false: EVs stay in use whatever they lose (negative control)")
    probe_interval: DurationNs = Field(default="50 ms", description="between probes of a retired EV")  # type: ignore[assignment]


class LabSpec(_Section):
    """A lab file, checked. `describe` in each field is what the JSON schema and the docs show."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,29}$", description="the lab's name; default: the file's")]
    planes: int = Field(ge=1, le=8, description="parallel networks, one NIC port each")
    t0_groups: int = Field(ge=1, le=512, description="racks; each has one T0 switch per plane")
    hosts_per_t0: int = Field(ge=1, le=256, description="hosts in a rack")
    t1s_per_plane: int = Field(ge=1, le=256, description="T1 switches, each linked to every T0 of its plane")
    rates: Rates = Field(default_factory=Rates)
    mtu: int = Field(default=4400, le=9000, description="of every link, in bytes; has to hold a 4 KB payload and headers")
    queue: Queue = Field(default_factory=Queue)
    routing: Literal["srv6"] = Field(default="srv6", description="how the fabric forwards")
    transport: Transport = Field(default_factory=Transport)
    stands_for: Rates = Field(
        default_factory=lambda: Rates(host="100 Gb/s", fabric="100 Gb/s"),  # type: ignore[arg-type]
        description="the real rates that the emulated ones stand for",
    )

    @model_validator(mode="after")
    def _dilation_is_one_number(self) -> LabSpec:
        if self.stands_for.host * self.rates.fabric != self.stands_for.fabric * self.rates.host:
            raise ValueError("stands_for and rates differ in ratio between host and fabric: time dilation must be one number")
        return self

    @property
    def time_dilation(self) -> float:
        """Real rate / emulated rate: how much slower the lab's time runs than the real fabric's."""
        return self.stands_for.host / self.rates.host

    @property
    def hosts(self) -> int:
        """Hosts in the whole lab."""
        return self.t0_groups * self.hosts_per_t0
