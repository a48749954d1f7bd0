"""A scenario's `health` section: how hosts probe while it runs, and from when on they act on what they find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, field_validator

from testbed.chaos.section import Section
from testbed.chaos.stage import Stage
from testbed.measure.record import Run
from testbed.topology.healthspec import Health, agent_settings, bound_can_be_told, interval_is_long_enough
from testbed.topology.labspec import LabSpec
from testbed.topology.units import DurationNs, Fraction, format_duration
from testbed.topology.yamlfile import Problem

_CORES = 2  # for the default interval, so that a scenario probes the same everywhere


class HealthOverride(Section):
    """Overrides of the lab's health section; what is not given stays as the lab has it."""

    policy: Literal["off", "observe", "act"] | None = Field(default=None, description="as in a lab file")
    interval: DurationNs | None = Field(default=None, description="between probes of a path")
    loss_bound: Fraction | None = Field(default=None, description="act: a NIC's link that loses more is denied")
    act_at: DurationNs | None = Field(default=None, description="policy act begins then; until then hosts observe")

    check_interval = field_validator("interval")(interval_is_long_enough)
    check_bound = field_validator("loss_bound")(bound_can_be_told)

    def problems(self, lab: LabSpec, duration_ns: int) -> list[Problem]:
        """What does not fit the lab or the run."""
        found = []
        if self.policy not in (None, "off") and not lab.source_routed:
            text = f"self-probes need a path of their own choice, and routing: {lab.routing} chooses for them"
            found.append(Problem(("health", "policy"), text, "leave it out, or take a lab with routing: srv6"))
        if self.act_at is not None and self.act_at >= duration_ns:
            text = f"hosts would act from {format_duration(self.act_at)} on, but the run ends at "
            found.append(Problem(("health", "act_at"), text + format_duration(duration_ns), "make it earlier"))
        return found

    def of(self, lab: LabSpec) -> Health:
        """The lab's section with these overrides."""
        given = {
            name: value for name in ("policy", "interval", "loss_bound") if (value := getattr(self, name)) is not None
        }
        return lab.health.model_copy(update=given)


class Probing:
    """The probers of a lab during one run. Without a section in the scenario nothing is touched."""

    def __init__(self, section: HealthOverride, stage: Stage) -> None:
        self._section = section
        self._stage = stage
        self._before: dict[str, dict[str, Any]] | None = None

    def begin(self) -> None:
        """Let all hosts probe as the scenario says."""
        section, spec = self._section, self._stage.clos.spec
        if not section.model_fields_set:
            return
        settings = agent_settings(spec, section.of(spec), _CORES)
        if section.act_at is not None:
            settings["policy"] = "observe"
        answers = self._stage.agents.call("health-set", **settings)
        self._before = {host: answer["before"] for host, answer in answers.items()}

    def acts(self, run: Run) -> list[tuple[int, Callable[[], None]]]:
        """What is to be done when, in ns."""
        if self._section.act_at is None:
            return []
        return [(run.start_ns + self._section.act_at, lambda: self._set("act"))]

    def end(self) -> None:
        """Let all hosts probe as before the run. Raises MrclabError when one does not answer."""
        if self._before is not None:
            self._stage.agents.call_each("health-set", self._before)
            self._before = None

    def _set(self, policy: str) -> None:
        self._stage.agents.call("health-set", policy=policy)
