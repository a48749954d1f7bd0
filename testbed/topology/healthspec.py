"""The `health` section of a lab file: whether and how Clustermapper probes, and what follows from it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agents.clustermapper.cost import Probed
from agents.clustermapper.settings import HEALTHY_LOSS, SHORTEST_INTERVAL_NS, Settings
from testbed.topology.units import DurationNs, Fraction, format_duration

LEAST_BOUND = 2 * HEALTHY_LOSS

if TYPE_CHECKING:
    from testbed.topology.labspec import LabSpec


def interval_is_long_enough(interval_ns: int | None) -> int | None:
    """A validator. Raises ValueError for less than the paper's interval, which needs no time dilation."""
    if interval_ns is not None and interval_ns < SHORTEST_INTERVAL_NS:
        raise ValueError(f"{format_duration(interval_ns)} is too short; write 1 ms or more")
    return interval_ns


def bound_can_be_told(bound: float | None) -> float | None:
    """A validator. Raises ValueError for a loss that a healthy link may have as well."""
    if bound is not None and not LEAST_BOUND <= bound <= 1:
        raise ValueError(f"{bound:.2%} cannot be told from a healthy link's; write {LEAST_BOUND:.1%} or more")
    return bound


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

    check_interval = field_validator("interval")(interval_is_long_enough)
    check_bound = field_validator("loss_bound")(bound_can_be_told)


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
