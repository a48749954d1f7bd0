"""How the flows of a run shared the fabric, and whether any of them had to wait for a timeout."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.measure import series
from testbed.measure.record import PacketLost, Run


def shares(run: Run) -> list[float]:
    """Mean goodput of each flow while it was measured, of what it offered."""
    since_ns, to_ns = run.measured_from_ns, run.stop_ns
    return [series.mean_goodput(run, [flow.name], since_ns, to_ns) / flow.offered_bps for flow in run.flows]


def jain(values: Sequence[float]) -> float | None:
    """Jain's index: 1 when all are equal, 1/n when one has everything; None when there is nothing to share."""
    squares = len(values) * sum(value**2 for value in values)
    return sum(values) ** 2 / squares if squares else None


def timeouts(run: Run) -> tuple[int, int]:
    """(packets sent again because nothing was heard of them, packets lost in all)."""
    lost = [event for event in run.events if isinstance(event, PacketLost)]
    return sum(event.cause == "timeout" for event in lost), len(lost)
