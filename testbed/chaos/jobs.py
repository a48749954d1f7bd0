"""The jobs of a scenario while it runs: the sizes of each one after the other, all jobs side by side.

All end when the traffic is to stop; a job that was told no number of repetitions goes on until then.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Protocol

from agents.workloads.programs import KINDS, Job
from testbed.chaos.job import JobPlan, JobRun
from testbed.chaos.stage import Agents
from testbed.chaos.workload import MAX_REPETITIONS, JobWorkload
from testbed.measure.jobs import JobResult
from testbed.measure.record import Flow, FlowTotals
from testbed.topology.clos import Clos, host_name

Fields = dict[str, Any]


class Watcher(Protocol):
    """Who wants to know of the queue pairs of a flow."""

    def add(self, flow: Flow, src_qpn: int, dst_qpn: int) -> None: ...


def plans(number: int, workload: JobWorkload, clos: Clos, seed: int, kind: Fields) -> list[JobPlan]:
    """One for each size of a workload (entry `number` of its scenario) that fits its lab.

    `kind`: `transport` and `options` of `qp-create`.
    """
    hosts = workload.placed([host_name(host) for host in range(clos.spec.hosts)])
    return [
        JobPlan(
            job=Job(
                kind=workload.kind,
                ranks=len(hosts),
                message_bytes=size,
                operations=workload.repetitions or MAX_REPETITIONS,
                seed=seed,
                compute_ns=workload.compute,
            ),
            hosts=hosts,
            qps_per_pair=workload.qps,
            restart_cost_ns=workload.restart_cost,
            open_end=workload.repetitions is None,
            workload=number,
            **kind,
        )
        for size in workload.message
    ]


def pairs(workload: JobWorkload, hosts: Sequence[str]) -> list[tuple[str, str]]:
    """(sender, receiver) of all that the ranks send to each other."""
    placed = workload.placed(hosts)
    job = Job(kind=workload.kind, ranks=len(placed), message_bytes=workload.message[0], operations=1, seed=0)
    return [(placed[src], placed[dst]) for src, dst in KINDS[workload.kind].flows(job)]


class Jobs:
    """All jobs of a run. `prepare`, then `release`; `look` now and then; `stop`; `end`; then `results`, `totals`."""

    def __init__(self, entries: Sequence[Sequence[JobPlan]], agents: Agents, clos: Clos, flows: Sequence[Flow]) -> None:
        """`entries`: the plans of each workload; `flows`: those of the run."""
        self._waiting = [list(plans) for plans in entries]
        self._running: list[JobRun | None] = [None] * len(entries)
        self._over: list[JobRun] = []
        self._agents = agents
        self._clos = clos
        self._flows = {(flow.src, flow.dst): flow for flow in flows}
        self._watcher: Watcher | None = None

    @property
    def over(self) -> bool:
        """Nothing is left to do; also when there were none."""
        return not any(self._waiting) and not any(self._running)

    def watch(self, watcher: Watcher) -> None:
        """Tell of all queue pairs from now on; before `prepare`."""
        self._watcher = watcher

    def prepare(self) -> None:
        """Connect the first size of each."""
        for place in range(len(self._running)):
            self._next(place)

    def release(self) -> None:
        """Let all of them begin."""
        for run in self._running:
            if run is not None:
                run.release()

    def look(self, now_ns: int, *, silent: Container[str] = (), lost: Container[str] = ()) -> None:
        """See to all jobs, but not to those with a rank on a `silent` host; `lost`: hosts whose agents were killed."""
        for place, run in enumerate(self._running):
            if run is None or any(host in silent and host not in lost for host in run.plan.hosts):
                continue
            if run.poll(now_ns, lost):
                self._over.append(run)
                self._running[place] = None
                if (following := self._next(place)) is not None:
                    following.release()

    def stop(self) -> None:
        """Let the ranks end where they are, and begin no other size."""
        self._waiting = [[] for _ in self._waiting]
        for run in self._running:
            if run is not None:
                run.stop()

    def end(self, lost: Container[str] = ()) -> None:
        """Take back what is not over, as failed."""
        self._waiting = [[] for _ in self._waiting]
        for place, run in enumerate(self._running):
            if run is not None:
                run.give_up(lost)
                self._over.append(run)
                self._running[place] = None

    def results(self) -> list[JobResult]:
        """Of all that are over, by workload and in the order of their sizes."""
        return sorted((run.result() for run in self._over), key=lambda result: result.workload)

    def totals(self) -> dict[str, FlowTotals]:
        """What the queue pairs counted, by flow. Bytes are checked by rank, not by flow (`JobResult`)."""
        totals: dict[str, FlowTotals] = {}
        for run in self._over:
            for ends, packets in run.packets.items():
                if ends in self._flows:
                    totals.setdefault(self._flows[ends].name, FlowTotals()).add_packets(packets)
        return totals

    def _next(self, place: int) -> JobRun | None:
        """Connect the next size of a workload, if there is one."""
        if not self._waiting[place]:
            return None
        run = JobRun(self._agents, self._clos, self._waiting[place].pop(0), self._connected)
        run.prepare()
        self._running[place] = run
        return run

    def _connected(self, host: str, qpn: int, peer: str, peer_qpn: int) -> None:
        flow = self._flows.get((host, peer))
        if flow is not None and self._watcher is not None:
            self._watcher.add(flow, qpn, peer_qpn)
