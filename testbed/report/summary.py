"""summary.json: the contract of a run for programs. Durations are seconds, rates bits per second of payload.

`flows[].goodput_bps` covers the measured time (after the warm-up); `min_bin` is the lowest 200 ms bin. In `faults`,
`at_s` and `for_s` are what really happened, `first_loss_s` counts from the fault, `rerouted_s` from the first drop to
the last, `restored_s` from the end of the fault until all EVs that it took carry traffic again. `recovered_s` is from
the fault to the end of the last 200 ms bin with less than 95 % of the usual goodput of the flows that it touches (0: no
bin was; null also when the last one was). `late_s` is how late the fault came, null when it was put in by hand.
In `faults[].ports` the fabric's own ports say what they saw of it (`measure.ports_view`): data packets taken, the time
from the first of them to the last, how long a dead path went on being used, and the loaded round trip before.
`faults[].retiring` is how long senders took to retire the EVs that it killed (`measure.retiring`). Goodput
while a fault was in stands in `goodput_bps` beside `oracle_bps`, null when it was too short to measure. `timing` is how
late the timeline's acts came.
`flows[].completion_s` is of messages, from posting to acknowledgement. `workloads` has the flows of each stream
together, `jobs` each size of each job (`measure.jobs`), whose bytes are compared there and not by flow; `during` is of
the operations that were under way while a fault was in. `ports` is what
the fabric's own ports counted, 0 `counted` where they do not; `notable` are those that marked, trimmed or dropped.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from statistics import median
from typing import Any

from testbed.measure import faults, phases, ports, ports_view, retiring, series
from testbed.measure.bandwidth import jain_index, weighted_percentiles
from testbed.measure.jobs import JobResult
from testbed.measure.judgement import Judged, Judgement
from testbed.measure.record import Fault, FaultActed, Flow, FlowTotals, Run
from testbed.topology.sizes import payload_share

SCHEMA_VERSION = 1


def summarise(run: Run, judgement: Judgement) -> dict[str, Any]:
    """The summary of a judged run, ready for JSON."""
    stretches = phases.phases(run)
    flows = [_flow(run, flow) for flow in run.flows]
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": run.scenario,
        "lab": run.lab,
        "seed": run.seed,
        "verdict": judgement.verdict,
        "reasons": judgement.reasons,
        "warnings": judgement.warnings,
        "interrupted": run.interrupted,
        "expectations": [_expectation(row) for row in judgement.expectations],
        "flows": flows,
        "workloads": _workloads(run, flows),
        "jobs": [{**job.told(run.start_ns), "during": _during(run, job)} for job in run.jobs],
        "faults": [_fault(run, cost, stretches) for cost in faults.costs(run)],
        "timing": _timing(run),
        "phases": [_phase(run, phase) for phase in stretches],
        "ports": {
            "counted": len(run.ports),
            "total": asdict(ports.total(run.ports)),
            "notable": {name: asdict(count) for name, count in ports.notable(run.ports).items()},
        },
        "machine": {
            "cpu_fraction": round(run.machine.cpu_fraction, 4),
            "softnet_drops": run.machine.softnet_drops,
            "socket_drops": run.machine.socket_drops,
            "late_timers": run.machine.late_timers,
            "events_dropped": run.machine.events_dropped,
        },
        "virtual": run.virtual,
        "time_dilation": run.clos.spec.time_dilation,
        "duration_s": round((run.stop_ns - run.start_ns) / 1e9, 9),
        "warmup_s": run.warmup_ns / 1e9,
    }


def _expectation(row: Judged) -> dict[str, Any]:
    scale = 1e9 if row.unit == "duration" else 1
    value = None if row.value is None or math.isinf(row.value) else row.value / scale
    return {
        "name": row.name,
        "of": row.place or "run",
        "limit": row.limit / scale,
        "value": value,
        "ok": row.ok,
        "unit": "s" if row.unit == "duration" else row.unit,
        "observations": row.observations,
    }


def _flow(run: Run, flow: Flow) -> dict[str, Any]:
    totals = run.totals.get(flow.name, FlowTotals())
    bins = series.goodput_bins(run, [flow.name], series.run_edges(run, run.measured_from_ns, run.stop_ns))
    whole = [run.measured_from_ns, max(run.stop_ns, run.measured_from_ns + 1)]
    by_plane = series.plane_bins(run, [flow.name], whole)[0]
    samples = run.received.get(flow.name, [])
    received = samples[-1].bytes_by_plane if samples else (0,) * run.planes
    return {
        "src": flow.src,
        "dst": flow.dst,
        "workload": flow.workload,
        "qps": flow.qps,
        "offered_bps": None if flow.full else round(flow.offered_bps),
        "bytes_delivered": totals.bytes_delivered,
        "bytes_wrong": totals.bytes_wrong,
        "messages": {"sent": totals.messages_sent, "delivered": totals.messages_delivered},
        "goodput_bps": {"mean": round(sum(by_plane)), "min_bin": round(min(bins, default=0.0)), "bins": len(bins)},
        "completion_s": weighted_percentiles(totals.completions),
        "packets": {
            "sent": totals.packets_sent,
            "retransmitted": totals.packets_retransmitted,
            "lost": totals.packets_lost,
            "duplicate": totals.packets_duplicate,
        },
        "planes": [
            {"plane": plane, "bytes_received": received[plane], "goodput_bps": round(by_plane[plane])}
            for plane in range(run.planes)
        ],
    }


def _during(run: Run, job: JobResult) -> list[dict[str, Any]]:
    """The operations that met each fault."""
    found = []
    for fault in run.faults:
        met = job.during(fault.since_ns, run.stop_ns if fault.until_ns is None else fault.until_ns)
        if met is not None:
            name = f"{fault.kind} {fault.target}"
            found.append({"fault": name, "at_s": round(run.seconds(fault.since_ns), 9), **met})
    return found


def _workloads(run: Run, flows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The streams of each entry of the scenario together; a share is of what a host can send."""
    line_rate_bps = run.planes * run.clos.spec.rates.host * payload_share()
    found = []
    for number in sorted({flow.workload for flow in run.flows} - {job.workload for job in run.jobs}):
        rates = [flow["goodput_bps"]["mean"] for flow in flows if flow["workload"] == number]
        completions: Counter[int] = Counter()
        for flow in run.flows:
            if flow.workload == number and flow.name in run.totals:
                completions.update(run.totals[flow.name].completions)
        found.append(
            {
                "workload": number,
                "flows": len(rates),
                "goodput_bps": sum(rates),
                "min_flow_share": round(min(rates) / line_rate_bps, 4),
                "max_flow_share": round(max(rates) / line_rate_bps, 4),
                "jain_index": round(jain_index(rates), 4),
                "completion_s": weighted_percentiles(completions),
            }
        )
    return found


def _timing(run: Run) -> dict[str, Any]:
    """Of the acts that the timeline wanted: how many, and how late they came."""
    late_s = [
        (event.t_ns - event.due_ns) / 1e9
        for event in run.events
        if isinstance(event, FaultActed) and event.due_ns is not None
    ]
    return {
        "acts": len(late_s),
        "late_median_s": round(median(late_s), 9) if late_s else None,
        "late_max_s": round(max(late_s), 9) if late_s else None,
    }


def _ports(run: Run, fault: Fault) -> dict[str, Any]:
    seen = ports_view.of_fault(run, fault)
    return {**asdict(seen), "unused_round_trips": seen.unused_round_trips}


def _fault(run: Run, cost: faults.FaultCost, stretches: list[phases.Phase]) -> dict[str, Any]:
    fault = cost.fault
    held = phases.during(run, fault, stretches)
    return {
        "kind": fault.kind,
        "target": fault.target,
        "end": fault.end,
        "options": dict(fault.options),
        "links": list(fault.links),
        "by": fault.by,
        "at_s": round(run.seconds(fault.since_ns), 9),
        "for_s": None if fault.until_ns is None else round((fault.until_ns - fault.since_ns) / 1e9, 9),
        "late_s": None if fault.due_ns is None else round((fault.since_ns - fault.due_ns) / 1e9, 9),
        "first_loss_s": cost.first_loss_s,
        "last_loss_s": cost.last_loss_s,
        "rerouted_s": cost.rerouted_s,
        "restored_s": cost.restored_s,
        "evs_not_restored": cost.evs_not_restored,
        "evs_retired": cost.evs_retired,
        "packets_lost": cost.packets_lost,
        "worst_flow_losses": cost.worst_flow_losses,
        "dip_fraction": None if cost.dip_fraction is None else round(cost.dip_fraction, 4),
        "dip_bytes": None if cost.dip_bytes is None else round(cost.dip_bytes),
        "goodput_bps": None if held is None or held.goodput_bps is None else round(held.goodput_bps),
        "oracle_bps": None if held is None else round(held.oracle_bps),
        "ports": _ports(run, fault),
        "retiring": asdict(retiring.of_fault(run, fault)),
        "recovered_s": None if cost.recovered_s is None or math.isinf(cost.recovered_s) else round(cost.recovered_s, 9),
    }


def _phase(run: Run, phase: phases.Phase) -> dict[str, Any]:
    return {
        "from_s": round(run.seconds(phase.start_ns), 9),
        "to_s": round(run.seconds(phase.stop_ns), 9),
        "down": phase.down,
        "slow": phase.slow,
        "goodput_bps": None if phase.goodput_bps is None else round(phase.goodput_bps),
        "oracle_bps": round(phase.oracle_bps),
    }
