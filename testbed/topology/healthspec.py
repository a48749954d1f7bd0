"""The `health` section of a lab file: whether and how Clustermapper probes, and what follows from it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agents.clustermapper.cost import Probed
from agents.clustermapper.settings import SHORTEST_INTERVAL_NS, Settings
from testbed.topology.units import DurationNs, Fraction, format_duration

if TYPE_CHECKING:
    from testbed.topology.labspec import LabSpec


class Health(BaseModel):
    """Self-probes of every link, and what hosts do about lossy ones of their own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True)

    policy: Literal["off", "observe", "act"] = Field(
        default="off",
        description="off: no self-probes; observe: probe all links; act: deny a plane by its loss as well",
    )
    interval: DurationNs | None = Field(
        default=None,
        description="between probes of a path; default: as 1 % of link capacity and 5 % of the CPUs allow",
    )
    loss_bound: Fraction = Field(default="1%", description="act: a NIC's link that loses more is denied")  # type: ignore[assignment]

    @field_validator("interval")
    @classmethod
    def _interval_is_long_enough(cls, interval_ns: int | None) -> int | None:
        if interval_ns is not None and interval_ns < SHORTEST_INTERVAL_NS:
            raise ValueError(f"{format_duration(interval_ns)} is too short; write 1 ms or more")
        return interval_ns

    @field_validator("loss_bound")
    @classmethod
    def _bound_can_be_told(cls, bound: float) -> float:
        if not 0.002 <= bound <= 1:
            raise ValueError(f"{bound:.2%} cannot be told from a healthy link's; write 0.2% or more")
        return bound


def probed(spec: LabSpec) -> Probed:
    """The lab as something that is probed."""
    return Probed(
        planes=spec.planes,
        hosts=spec.hosts,
        hosts_per_t0=spec.hosts_per_t0,
        t1s_per_plane=spec.t1s_per_plane,
        host_bps=spec.rates.host,
        fabric_bps=spec.rates.fabric,
    )


def agent_settings(spec: LabSpec, health: Health, cores: int) -> dict[str, Any]:
    """The fields of clustermapper's Settings that a section asks for; `cores`: CPUs that all agents share."""
    interval_ns = probed(spec).shortest_interval_ns(cores) if health.interval is None else health.interval
    settings = Settings(interval_ns=interval_ns, policy=health.policy, loss_bound=health.loss_bound)
    return asdict(settings)
