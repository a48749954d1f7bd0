"""A job of ranks on the agents (`agents.workloads.programs`): its queue pairs, its beginning, its end, its restarts.

All is done by the operations of the agents, and nothing by waiting for a while: the ranks are released when every one
of them has said that it is ready. When a rank's queue pair dies the job is interrupted, as a training job is: all queue
pairs are taken back, the restart costs its time, and everybody goes on with the first operation that not all had ended.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agents.workloads import channel
from agents.workloads.programs import KINDS, Job
from testbed.chaos.stage import Agents, ask
from testbed.measure.jobs import Interruption, JobResult
from testbed.measure.record import FlowTotals
from testbed.topology.clos import Clos
from testbed.topology.errors import InputError

Fields = dict[str, Any]
Connected = Callable[[str, int, str, int], None]  # host and queue pair at both ends of a connection


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job, where its ranks live (names of hosts, by rank), and over what."""

    job: Job
    hosts: Sequence[str]
    transport: str = "mrc"
    options: Fields = field(default_factory=dict)  # of the queue pairs
    qps_per_pair: int = 1
    restart_cost_ns: int | None = None  # None: an interruption is the end
    open_end: bool = False  # goes on until it is stopped
    workload: int = 0  # the number of the scenario's entry that it comes from

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


class JobRun:
    """Runs it. `prepare`, `release`, then `poll` now and then until it says that the job is over, then `result`.

    `packets` has what the queue pairs counted, by (sending host, receiving host).
    """

    def __init__(self, agents: Agents, clos: Clos, plan: JobPlan, connected: Connected | None = None) -> None:
        """`connected` is told of each connection that is made. Raises InputError for a plan that does not fit."""
        plan.check(clos)
        self.plan = plan
        self.packets: dict[tuple[str, str], FlowTotals] = {}
        self._agents = agents
        self._clos = clos
        self._connected = connected
        self._interruptions: list[Interruption] = []
        self._failed = False
        self._first = plan.job.first
        self._qps: dict[tuple[str, int], str] = {}  # (host, queue pair) -> the host at its other end
        self._workloads: list[int] = []  # by rank
        self._ended = 0  # operations since the last start that every rank had ended when it was asked last
        self._restart_ns: int | None = None
        self._stopped = False
        self._times: list[tuple[int, int, int]] = []  # of ended operations, of all ranks
        self._sums = dict.fromkeys(("bytes_delivered", "bytes_wrong", "bytes_sent", "messages_unexpected"), 0)

    def start(self) -> None:
        """Connect all ranks, then release them."""
        self.prepare()
        self.release()

    def prepare(self) -> None:
        """Connect all ranks."""
        job = replace(self.plan.job, first=self._first)
        links = self._connect(job)
        answers = ask(
            self._agents,
            "rank-start",
            [(host, {**asdict(job), "rank": rank, "links": links[rank]}) for rank, host in enumerate(self.plan.hosts)],
        )
        self._workloads = [answer["workload"] for answer in answers]

    def release(self) -> None:
        """Let them begin."""
        ask(self._agents, "rank-release", self._each_rank())

    def stop(self) -> None:
        """Let all ranks end where they are."""
        self._stopped = True
        if self._workloads:
            ask(self._agents, "workload-stop", self._each_rank())

    def poll(self, now_ns: int, lost: Container[str] = ()) -> bool:
        """See to the job; whether it is over: done, stopped, or failed. `lost`: hosts whose agents were killed."""
        if self._restart_ns is not None:
            if self._stopped:
                return True
            if now_ns >= self._restart_ns and not any(host in lost for host in self.plan.hosts):
                self._restart_ns = None
                self.start()
            return False
        gone = next((host for host in self.plan.hosts if host in lost), None)
        if gone is not None:
            return self._interrupt(gone, now_ns, "its agent was killed", lost)
        reports = self._reports(brief=True)
        self._ended = min(report["operations"] for report in reports)
        broken = next((rank for rank, report in enumerate(reports) if report["failure"] is not None), None)
        if broken is not None:
            return self._interrupt(self.plan.hosts[broken], now_ns, reports[broken]["failure"])
        if not all(report["drained"] for report in reports):
            return False
        self._take_in()
        return True

    def give_up(self, lost: Container[str] = ()) -> None:
        """Take it back though it is not over."""
        self._failed = True
        if self._workloads:
            self._take_in(lost)

    def result(self) -> JobResult:
        """What the job came to."""
        plan, job = self.plan, self.plan.job
        return JobResult(
            workload=plan.workload,
            kind=job.kind,
            ranks=job.ranks,
            qps_per_pair=plan.qps_per_pair,
            message_bytes=job.message_bytes,
            operations=self._first - job.first,
            wanted=None if plan.open_end else job.operations - job.first,
            failed=self._failed,
            interruptions=self._interruptions,
            restart_cost_ns=plan.restart_cost_ns,
            times=self._times,
            **self._sums,
        )

    def _interrupt(self, host: str, now_ns: int, why: str, lost: Container[str] = ()) -> bool:
        """A rank is lost; whether that is the end."""
        self._take_in(lost)
        self._interruptions.append(Interruption(host, now_ns, why, self._first))
        if self.plan.restart_cost_ns is None or self._stopped:
            self._failed = True
            return True
        self._restart_ns = now_ns + self.plan.restart_cost_ns
        return False

    def _reports(self, *, brief: bool = False, without: Container[str] = ()) -> list[Fields]:
        """Of all ranks."""
        requests = [(host, {**fields, "brief": brief}) for host, fields in self._each_rank() if host not in without]
        return [answer["workloads"][0] for answer in ask(self._agents, "workload-status", requests)]

    def _each_rank(self) -> list[tuple[str, Fields]]:
        return [(host, {"workload": number}) for host, number in zip(self.plan.hosts, self._workloads, strict=True)]

    def _take_in(self, lost: Container[str] = ()) -> None:
        """Count what the ranks did, and take their queue pairs back. Of lost hosts nobody knows anything any more."""
        reports = self._reports(without=lost)
        if len(reports) == len(self.plan.hosts):
            self._ended = min(report["operations"] for report in reports)
        self._first += self._ended  # by all ranks, as far as is known
        self._ended = 0
        for report in reports:
            self._times += [(began, ended, parts) for began, ended, parts in report["times"]]
            for name in self._sums:
                self._sums[name] += report[name]
        self._count_packets(lost)
        ask(self._agents, "qp-destroy", [(host, {"qpn": qpn}) for host, qpn in self._qps if host not in lost])
        self._qps.clear()
        self._workloads = []

    def _count_packets(self, lost: Container[str]) -> None:
        hosts = {host: {"limit": 0} for host in self.plan.hosts if host not in lost}
        for host, answer in self._agents.call_each("collect", hosts).items():
            for qp in answer["totals"]["qps"]:
                peer = self._qps.get((host, qp["qpn"]))
                if peer is not None:
                    self.packets.setdefault((host, peer), FlowTotals()).add_sender(qp)
                    self.packets.setdefault((peer, host), FlowTotals()).add_receiver(qp)

    def _connect(self, job: Job) -> list[list[Fields]]:
        """The links of each rank, as `rank-start` wants them."""
        plan = self.plan
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
            for pair, answer in zip(pairs, ends[-1], strict=True):
                self._qps[plan.hosts[pair[near]], answer["qpn"]] = plan.hosts[pair[far]]
        connections: list[tuple[str, Fields]] = []
        links: list[list[Fields]] = [[] for _ in plan.hosts]
        for pair, *both in zip(pairs, *ends, strict=True):
            for near, far in ((0, 1), (1, 0)):
                own, remote = both[near], both[far]
                host, peer = plan.hosts[pair[near]], plan.hosts[pair[far]]
                connections.append(
                    (host, {"qpn": own["qpn"], "remote_qpn": remote["qpn"], "remote_psn": remote["psn"]})
                )
                region = {name: remote[name] for name in ("address", "rkey", "size")}
                links[pair[near]].append({"rank": pair[far], "qpn": own["qpn"], **region})
                if self._connected is not None:
                    self._connected(host, own["qpn"], peer, remote["qpn"])
        ask(self._agents, "qp-connect", connections)
        return links
