"""A job of ranks on the agents (`agents.workloads.programs`): its queue pairs, its beginning, its end, its restarts.

All is done by the operations of the agents, and nothing by waiting for a while: the ranks are released when every one
of them has said that it is ready. When a rank's queue pair dies the job is interrupted, as a training job is: all queue
pairs are taken back, the restart costs its time, and everybody goes on with the first operation that not all had ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agents.workloads import channel
from agents.workloads.programs import KINDS, Job
from testbed.chaos.stage import Agents, ask
from testbed.measure.bandwidth import bandwidth, percentile
from testbed.topology.clos import Clos
from testbed.topology.errors import InputError

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job, where its ranks live (names of hosts, by rank), and over what."""

    job: Job
    hosts: Sequence[str]
    transport: str = "mrc"
    options: Fields = field(default_factory=dict)  # of the queue pairs
    qps_per_pair: int = 1
    restart_cost_ns: int | None = None  # None: an interruption is the end

    def check(self, clos: Clos) -> None:
        """Raises InputError for what cannot be."""
        if len(set(self.hosts)) != len(self.hosts):
            raise InputError(f"job {self.job.kind}: two ranks on one host", "name each host once")
        if len(self.hosts) != self.job.ranks:
            raise InputError(
                f"job {self.job.kind}: {self.job.ranks} ranks on {len(self.hosts)} hosts", "name one host for each rank"
            )
        for host in self.hosts:
            if host not in clos.nodes or clos.nodes[host].kind != "host":
                raise InputError(
                    f"job {self.job.kind}: there is no host {host}", f"there are h0 to h{len(clos.hosts) - 1}"
                )
        if self.qps_per_pair < 1:
            raise InputError(f"job {self.job.kind}: {self.qps_per_pair} queue pairs per pair", "write 1 or more")


@dataclass(frozen=True, slots=True)
class Interruption:
    """A queue pair died: whose, when it was noticed, and how many operations all ranks had ended until then."""

    host: str
    t_ns: int
    why: str
    operations: int


class JobRun:
    """Runs it. `start`, then `poll` now and then until it says that the job is over, then `report`."""

    def __init__(self, agents: Agents, clos: Clos, plan: JobPlan) -> None:
        """Raises InputError for a plan that does not fit the lab."""
        plan.check(clos)
        self.interruptions: list[Interruption] = []
        self.failed = False
        self._agents = agents
        self._clos = clos
        self._plan = plan
        self._first = plan.job.first
        self._qps: list[tuple[str, int]] = []
        self._workloads: list[int] = []  # by rank
        self._restart_ns: int | None = None
        self._times: list[tuple[int, int, int]] = []  # of ended operations, of all ranks
        self._sums = dict.fromkeys(("bytes_delivered", "bytes_wrong", "bytes_sent", "messages_unexpected"), 0)

    def start(self) -> None:
        """Connect all ranks, then release them."""
        job = replace(self._plan.job, first=self._first)
        links = self._connect(job)
        answers = ask(
            self._agents,
            "rank-start",
            [(host, {**asdict(job), "rank": rank, "links": links[rank]}) for rank, host in enumerate(self._plan.hosts)],
        )
        self._workloads = [answer["workload"] for answer in answers]
        ask(self._agents, "rank-release", self._each_rank())

    def poll(self, now_ns: int) -> bool:
        """See to the job; whether it is over: done, or failed."""
        if self._restart_ns is not None:
            if now_ns >= self._restart_ns:
                self._restart_ns = None
                self.start()
            return False
        reports = self._reports()
        broken = next((rank for rank, report in enumerate(reports) if report["failure"] is not None), None)
        if broken is None and not all(report["drained"] for report in reports):
            return False
        self._take_in(reports)
        if broken is None:
            return True
        why = reports[broken]["failure"]
        self.interruptions.append(Interruption(self._plan.hosts[broken], now_ns, why, self._first))
        if self._plan.restart_cost_ns is None:
            self.failed = True
            return True
        self._restart_ns = now_ns + self._plan.restart_cost_ns
        return False

    def report(self) -> Fields:
        """What the job came to; times in ns, bandwidths in bits per second, None where nothing has ended."""
        job, times = self._plan.job, self._times
        durations = [(ended - began) / parts for began, ended, parts in times]
        report: Fields = {
            "kind": job.kind,
            "ranks": job.ranks,
            "message_bytes": job.message_bytes,
            "operations": self._first - job.first,
            "failed": self.failed,
            "interruptions": [asdict(one) for one in self.interruptions],
            **self._sums,
            "algbw_bps": None,
            "busbw_bps": None,
            "elapsed_ns": None,
            "percentiles_ns": None,
        }
        if durations:
            elapsed_ns = max(ended for _, ended, _ in times) - min(began for began, _, _ in times)
            per_operation_ns = elapsed_ns / max(1, self._first - job.first) / times[0][2]
            speed = bandwidth(job.kind, job.ranks, job.message_bytes, per_operation_ns)
            report |= {
                "algbw_bps": speed.algorithm_bps,
                "busbw_bps": speed.bus_bps,
                "elapsed_ns": elapsed_ns,
                "percentiles_ns": {percent: percentile(durations, percent) for percent in (1, 50, 90, 99)},
            }
        return report

    def _reports(self) -> list[Fields]:
        """Of all ranks."""
        return [answer["workloads"][0] for answer in ask(self._agents, "workload-status", self._each_rank())]

    def _each_rank(self) -> list[tuple[str, Fields]]:
        return [(host, {"workload": number}) for host, number in zip(self._plan.hosts, self._workloads, strict=True)]

    def _take_in(self, reports: Sequence[Fields]) -> None:
        """Count what the ranks did, and take their queue pairs back."""
        self._first += min(report["operations"] for report in reports)
        for report in reports:
            self._times += [tuple(times) for times in report["times"]]
            for name in self._sums:
                self._sums[name] += report[name]
        ask(self._agents, "qp-destroy", [(host, {"qpn": qpn}) for host, qpn in self._qps])
        self._qps, self._workloads = [], []

    def _connect(self, job: Job) -> list[list[Fields]]:
        """The links of each rank, as `rank-start` wants them."""
        plan = self._plan
        size = channel.region_bytes(job.message_bytes, plan.qps_per_pair)
        common = {"transport": plan.transport, "options": plan.options, "region_bytes": size}
        pairs = [pair for pair in KINDS[job.kind].pairs(job) for _ in range(plan.qps_per_pair)]
        ends: list[list[Fields]] = []
        for near, far in ((0, 1), (1, 0)):
            requests = [
                (plan.hosts[pair[near]], {"peer": self._clos.nodes[plan.hosts[pair[far]]].index, **common})
                for pair in pairs
            ]
            ends.append(ask(self._agents, "qp-create", requests))
            self._qps += [(host, answer["qpn"]) for (host, _), answer in zip(requests, ends[-1], strict=True)]
        connections: list[tuple[str, Fields]] = []
        links: list[list[Fields]] = [[] for _ in plan.hosts]
        for pair, *both in zip(pairs, *ends, strict=True):
            for near, far in ((0, 1), (1, 0)):
                own, remote = both[near], both[far]
                connections.append(
                    (
                        plan.hosts[pair[near]],
                        {"qpn": own["qpn"], "remote_qpn": remote["qpn"], "remote_psn": remote["psn"]},
                    )
                )
                region = {name: remote[name] for name in ("address", "rkey", "size")}
                links[pair[near]].append({"rank": pair[far], "qpn": own["qpn"], **region})
        ask(self._agents, "qp-connect", connections)
        return links
