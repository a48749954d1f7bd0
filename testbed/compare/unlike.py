"""What differs between the columns besides the transport: said in the report, so that nobody has to ask."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.compare import timeout
from testbed.compare.columns import Entry
from testbed.topology.labspec import NS_BITS, LabSpec
from testbed.topology.sizes import frame_bytes
from testbed.topology.units import format_duration, format_rate


def said(entries: Sequence[Entry]) -> list[str]:
    """A sentence for each thing that is unlike."""
    specs = [one.spec for one in entries]
    found = []
    if len({spec.planes for spec in specs}) > 1:
        shapes = "; ".join(f"{one.column.name}: {_shape(one.spec)}" for one in entries)
        found.append(f"The bandwidth of each host is the same, the planes are not. {shapes}.")
        shares = "; ".join(f"{one.column.name}: 1/{one.spec.planes * one.spec.t1s_per_plane}" for one in entries)
        found.append(f"So a link between T0 and T1 is another part of what a rack can send. {shares}.")
        times = "; ".join(f"{one.column.name}: {format_duration(_packet_ns(one.spec))}" for one in entries)
        found.append(
            f"A whole packet is received before it is sent on, at each of four hops; it takes longer on a slower port, "
            f"which costs small messages over several planes more. {times}."
        )
    if len({spec.source_routed for spec in specs}) > 1:
        found.append("Where the switches hash, packets go without the outer IPv6 header: 40 bytes less of 4 KB.")
    mapped = {old: new for one in entries for old, new in one.mapped.items()}
    if mapped:
        told = ", ".join(f"{old} is {new}" for old, new in sorted(mapped.items()))
        found.append(f"Faults of a plane happen in the only one where there is one: {told}.")
    if any(one.column.kind == "roce" for one in entries):
        found.append(
            "RoCE has the best of several settings, chosen on this very scenario; MRC has one. RoCE's packets are "
            "dropped where MRC's are trimmed, and NICs do not split a message over paths."
        )
    found += _timeouts(entries)
    timers = [one.spec.bgp for one in entries if one.spec.routing == "bgp"]
    if timers:
        dilation = max(spec.time_dilation for spec in specs)
        found.append(
            f"BGP and BFD run in the lab's own seconds, which are not dilated: BFD each "
            f"{format_duration(timers[0].bfd_interval)} is {format_duration(timers[0].bfd_interval / dilation)} of the "
            f"real fabric's time, far faster than such timers are. That is in the baseline's favour."
        )
    return found


def _timeouts(entries: Sequence[Entry]) -> list[str]:
    """Where RoCE's timeout is longer than it has to be, and no other is tried since it was asked for."""
    for one in entries:
        if one.column.kind == "roce" and not one.sooner:
            exponent = next(iter(one.scenarios.values())).transport_of(one.spec).timeout_exponent
            least = timeout.least_exponent(one.spec)
            if not exponent or exponent > least:
                when = f"after {timeout.words(exponent)} of the real fabric's time" if exponent else "never"
                return [
                    f"RoCE sends again what no NAK tells of {when}; {timeout.words(least)} "
                    f"(--set transport.timeout_exponent={least}) is longer than a full queue and a round trip. That "
                    f"is to the baseline's disadvantage where packets are lost."
                ]
    return []


def _shape(spec: LabSpec) -> str:
    planes = "one plane" if spec.planes == 1 else f"{spec.planes} planes"
    return f"{planes} of {format_rate(spec.rates.host)} a port, {spec.t1s_per_plane} T1s in each"


def _packet_ns(spec: LabSpec) -> float:
    return frame_bytes() * NS_BITS / spec.rates.fabric
