"""RoCE's timeout: the shortest that a lab allows, since a longer one costs the baseline what no NAK tells of."""

from __future__ import annotations

from agents.roce.config import MAX_TIMEOUT_EXPONENT, RoceConfig
from testbed.chaos.scenario import Scenario
from testbed.topology.labspec import CABLE_NS, NS_BITS, LabSpec
from testbed.topology.sizes import frame_bytes
from testbed.topology.units import format_duration

_LINKS_THERE_AND_BACK = 8  # host, T0, T1, T0, host


def least_exponent(spec: LabSpec) -> int:
    """The first of which the timeout is longer than a full queue and a round trip of the real fabric.

    Shorter ones send again what only waits.
    """
    slowest_bps = min(spec.stands_for.host, spec.stands_for.fabric)
    there_and_back_ns = _LINKS_THERE_AND_BACK * (frame_bytes() * NS_BITS / slowest_bps + CABLE_NS)
    needed_ns = spec.queue.size * NS_BITS / slowest_bps + there_and_back_ns
    exponents = range(1, MAX_TIMEOUT_EXPONENT)
    return next((of for of in exponents if _timeout_ns(of) > needed_ns), MAX_TIMEOUT_EXPONENT)


def is_set(spec: LabSpec, scenario: Scenario) -> bool:
    """Whether lab or scenario ask for one: then it is not a setting to be tried."""
    return any("timeout_exponent" in one.transport.model_fields_set for one in (spec, scenario))


def words(exponent: int) -> str:
    """For people, of the real fabric's time."""
    return format_duration(_timeout_ns(exponent))


def _timeout_ns(exponent: int) -> int:
    return RoceConfig(timeout_exponent=exponent).timeout_ns or 0
