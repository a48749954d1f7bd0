"""loss: a link loses packets at random, as a dirty connector or a failing optic does."""

from __future__ import annotations

from testbed.chaos.kinds.acts import Act
from testbed.chaos.kinds.kind import Case, Kind, change_each


def acts(case: Case) -> tuple[Act, ...]:
    """Random loss at the ports of the case."""
    return change_each(case.ports, ("loss", case.options["loss"]))


KIND = Kind(
    name="loss",
    doc="loses a share of the packets that the ends send into a link, whatever they are",
    takes="links",
    acts=acts,
    end="both",
    defaults={"loss": 0.01},
)
