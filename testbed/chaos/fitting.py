"""What would have fitted: advice for a run that the machine could not carry, from what it did carry.

A packet costs the CPUs about the same whatever the rate. So a machine that was busy to the fraction `f` while so many
bytes were delivered delivers about `TARGET / f` times as many at TARGET, and that is the load to ask for.
"""

from __future__ import annotations

from testbed.measure.record import Run
from testbed.topology.units import format_rate

TARGET_CPU = 0.8  # of all cores: above it, agents wait for each other
_SMALLEST_ADVICE = 0.01
_BITS_PER_BYTE = 8


def share_that_fits(run: Run) -> float | None:
    """What share of the offered load the machine can carry, by its CPUs; None when nothing says that it was less."""
    seconds = (run.stop_ns - run.start_ns) / 1e9
    offered_bps = sum(flow.offered_bps for flow in run.flows)
    delivered_bits = sum(totals.bytes_delivered for totals in run.totals.values()) * _BITS_PER_BYTE
    if run.virtual or not offered_bps or not delivered_bits or seconds <= 0 or run.machine.cpu_fraction <= 0:
        return None  # `seconds` is 0 when a run is ended before its traffic begins
    share = delivered_bits / seconds * TARGET_CPU / run.machine.cpu_fraction / offered_bps
    return share if share < 1 else None


def advice(run: Run) -> str:
    """Which load, rates or number of flows would fit, in numbers where they are known."""
    share = share_that_fits(run)
    if share is None:
        return "lower the lab's rates or the load, or run fewer hosts"
    share = max(share, _SMALLEST_ADVICE)
    rates = run.clos.spec.rates
    flows = max(1, round(share * len(run.flows)))
    load = share * sum(flow.offered_bps for flow in run.flows)
    return (
        f"this machine carries about {share:.0%} of that load ({format_rate(round(load))} in all): multiply load by "
        f"{share:.2g}, or write rates of {format_rate(round(rates.host * share))}, or run {flows} flows of "
        f"{len(run.flows)}"
    )
