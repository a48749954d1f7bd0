"""The `transport` section of a lab file, of which a scenario overrides parts: how queue pairs are set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from testbed.topology.sizes import PAYLOAD_BYTES
from testbed.topology.units import DurationNs, SizeBytes, format_size
from testbed.topology.yamlfile import Problem, refuse

# What is a setting of one transport only.
SETTINGS = {
    "mrc": ("evs_per_plane", "congestion", "window", "ev_min_active", "retire_evs", "probe_interval"),
    "roce": ("dcqcn", "timeout_exponent", "retry_count"),
}


class Transport(BaseModel):
    """Defaults of the queue pairs; a scenario may override them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True)

    kind: Literal["mrc", "roce"] = Field(default="mrc", description="the transport; roce is the baseline")
    dcqcn: Literal["published", "vendor", "gentle", "eager"] = Field(
        default="published", description="roce: parameters of its rate control"
    )
    timeout_exponent: int = Field(default=6, ge=0, le=31, description="roce: retries after 4.096 us x 2^this; 0: never")
    retry_count: int = Field(default=7, ge=0, le=7, description="roce: retries without progress before a QP fails")
    evs_per_plane: int | None = Field(
        default=None, ge=1, le=32, description="EVs in use per plane; default: every path, at most 256 in all"
    )
    congestion: Literal["nscc", "fixed"] = Field(default="nscc", description="congestion control of the queue pairs")
    window: SizeBytes = Field(default="256 KB", description="bytes in flight per queue pair with congestion: fixed")  # type: ignore[assignment]
    ev_min_active: int = Field(default=1, ge=1, description="no EV is retired below this number per queue pair")
    retire_evs: bool = Field(default=True, description="false: EVs stay in use whatever they lose (negative control)")
    probe_interval: DurationNs = Field(default="50 ms", description="between probes of a retired EV")  # type: ignore[assignment]

    @field_validator("window")
    @classmethod
    def _window_holds_a_packet(cls, window_bytes: int) -> int:
        if window_bytes < PAYLOAD_BYTES:
            raise ValueError(f"{format_size(window_bytes)} holds no packet; write {format_size(PAYLOAD_BYTES)} or more")
        return window_bytes

    @field_validator("probe_interval")
    @classmethod
    def _probes_are_apart(cls, interval_ns: int) -> int:
        if interval_ns < 1_000_000:
            raise ValueError("probes would flood the fabric; write 1 ms or more")
        return interval_ns

    @model_validator(mode="after")
    def _window_is_of_the_fixed_one(self) -> Transport:
        if "window" in self.model_fields_set and self.kind == "mrc" and self.congestion != "fixed":
            what = f"window is the window of 'congestion: fixed'; with {self.congestion} it follows the fabric"
            refuse([Problem(("window",), what, "add 'congestion: fixed', or leave window out")])
        return self

    def qp_options(self) -> dict[str, Any]:
        """The same as the `options` of an agent's `qp-create`, for its `kind`."""
        if self.kind == "roce":
            return {name: getattr(self, name) for name in SETTINGS["roce"]}
        return {
            "evs_per_plane": self.evs_per_plane,
            "congestion": self.congestion,
            "window_bytes": self.window,
            "ev_min_active": self.ev_min_active,
            "retire_evs": self.retire_evs,
            "probe_interval_ns": self.probe_interval,
        }

    def problems(self, paths: int, written: Iterable[str]) -> Iterator[Problem]:
        """What does not fit a lab with so many paths; of the settings that were `written`, those that set nothing."""
        if self.ev_min_active > paths:
            yield Problem(
                ("transport", "ev_min_active"),
                f"{self.ev_min_active} EVs cannot stay active: there are {paths} paths",
                f"write {paths} or less",
            )
        other = "roce" if self.kind == "mrc" else "mrc"
        for name in sorted(set(written) & set(SETTINGS[other])):
            what = f"{name} sets something of {other}, and the queue pairs here are {self.kind}'s"
            yield Problem(("transport", name), what, f"add 'kind: {other}', or leave {name} out")
