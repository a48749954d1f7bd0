"""delay: a link takes longer, and with delay_jitter not always equally long."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def _acts(case: Case) -> tuple[Act, ...]:
    # one setting, so that of two faults the latest stands with both its numbers
    return change_each(case.ports, ("delay", (case.options["delay"], case.options["delay_jitter"])))


KIND = Kind(
    name="delay",
    doc="delays what the ends send into a link; on the lab only where the kernel has netem",
    takes="links",
    acts=_acts,
    end="both",
    defaults={"delay": 2_000_000, "delay_jitter": 0},
    needs_netem=True,
)
