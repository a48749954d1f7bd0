"""A host's agent above its NIC: queue pairs with their memory, workloads, probes, telemetry. Sans-IO.

The event loop delivers NIC events and time; `operations` does what the control socket asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.memory import Region
from agents.mrc.cc_profile import CcProfile
from agents.mrc.config import MrcConfig
from agents.mrc.profile import EvProfile
from agents.mrc.qp import MrcQueuePair
from agents.nic import Nic
from agents.telemetry import DEFAULT_SAMPLE_INTERVAL_NS, Telemetry
from agents.transport import Event, ImmediateReceived, ProbeAnswered, QpFailed, QueuePair, SendCompleted
from agents.verbs import Access, Device, MemoryRegion
from agents.workloads.base import Workload

ProbeResult = dict[str, Any]
_PROGRAM_CQ_ENTRIES = 1 << 16


class Connection:
    """A queue pair, the region that its peer may write to, and the workloads on it."""

    __slots__ = ("qp", "region", "workloads")

    def __init__(self, qp: QueuePair, region: Region) -> None:
        self.qp = qp
        self.region = region
        self.workloads: dict[int, Workload] = {}


class _ProbeRound:
    """Probes that are answered together: when the last has come back, or at the deadline."""

    def __init__(self, deadline_ns: int, done: Callable[[list[ProbeResult]], None]) -> None:
        self.deadline_ns = deadline_ns
        self._done = done
        self._results: list[ProbeResult] = []
        self._missing = 0

    def expect(self, ev: int) -> ProbeResult:
        """One more probe; what is returned is to be handed to `answered`."""
        result: ProbeResult = {"ev": ev, "answered": False, "rtt_ns": None}
        self._results.append(result)
        self._missing += 1
        return result

    def answered(self, result: ProbeResult, rtt_ns: int) -> bool:
        """Note an answer; says whether it was the last one."""
        result.update(answered=True, rtt_ns=rtt_ns)
        self._missing -= 1
        return self._missing == 0

    def finish(self) -> None:
        """Report what has come back so far."""
        self._done(self._results)


class Program:
    """What a program that uses the verbs from outside has on this NIC."""

    def __init__(self, nic: Nic) -> None:
        # What an operation has posted is sent when it is over, like everything else: there is nobody to wake.
        self.device = Device(nic, kick=lambda: None)
        self.cq = self.device.create_cq(_PROGRAM_CQ_ENTRIES)
        self.regions: dict[int, MemoryRegion] = {}
        self._regions_made = 0

    def register(self, size: int, access: Access) -> tuple[int, MemoryRegion]:
        """A region of zero bytes and its number."""
        self._regions_made += 1
        region = self.regions[self._regions_made] = self.device.reg_mr(size, access)
        return self._regions_made, region


class Agent:
    """What lives on one NIC."""

    def __init__(self, nic: Nic, now: int, sample_interval_ns: int = DEFAULT_SAMPLE_INTERVAL_NS) -> None:
        self.nic = nic
        self.telemetry = Telemetry(now, sample_interval_ns)
        self.connections: dict[int, Connection] = {}
        self.ev_profiles: dict[int, EvProfile] = {}
        self.cc_profiles: dict[int, CcProfile] = {}
        self._program: Program | None = None
        self._workload_ids = 0
        self._probes: dict[int, tuple[_ProbeRound, ProbeResult]] = {}
        self._probe_rounds: list[_ProbeRound] = []

    def program(self) -> Program:
        """The verbs' side, from its first use on."""
        if self._program is None:
            self._program = Program(self.nic)
        return self._program

    def on_event(self, event: Event, now: int) -> None:
        """Take an event of the NIC: the workloads' own go to them, the rest is kept for whoever collects it."""
        if self._program is not None:
            self._program.device.on_event(event)
        if isinstance(event, (SendCompleted, ImmediateReceived)):
            self._tell_workloads(event, now)
        elif isinstance(event, ProbeAnswered):
            self._probe_answered(event)
        else:
            self.telemetry.note(event)
            if isinstance(event, QpFailed):
                self._tell_workloads(event, now)

    def on_carrier(self, port: int, up: bool, now: int) -> None:
        """A NIC port lost or regained carrier; the NIC knows already."""
        self.telemetry.note_carrier(port, up, now)

    def next_timer(self) -> int | None:
        """When the next thing is due, in ns."""
        first = self.telemetry.next_timer() if self.connections else None
        for connection in self.connections.values():
            for workload in connection.workloads.values():
                due = workload.next_timer()
                if due is not None and (first is None or due < first):
                    first = due
        for probe_round in self._probe_rounds:
            if first is None or probe_round.deadline_ns < first:
                first = probe_round.deadline_ns
        return first

    def handle_timer(self, now: int) -> None:
        """Do what is due at `now`."""
        for connection in self.connections.values():
            for workload in connection.workloads.values():
                due = workload.next_timer()
                if due is not None and due <= now:
                    workload.handle_timer(now)
        self.telemetry.sample((connection.qp for connection in self.connections.values()), now)
        for one in [one for one in self._probe_rounds if one.deadline_ns <= now]:
            self._finish(one)

    def create_qp(
        self,
        peer: int,
        options: dict[str, Any],
        region_bytes: int,
        transport: str = "mrc",
        *,
        ev_profile: EvProfile | None = None,
        cc_profile: CcProfile | None = None,
    ) -> Connection:
        """A queue pair to host `peer` and memory for what comes from there. Raises ValueError for bad options.

        The profiles are for MRC: where its EVs come from, and what controls its congestion.
        """
        settings = self.nic.settings(transport, **options)
        region = self.nic.register_memory(region_bytes)
        try:
            if isinstance(settings, MrcConfig):
                if cc_profile is not None:
                    settings = cc_profile.apply(settings)
                qp: QueuePair = self.nic.create_qp(peer, options=settings, ev_profile=ev_profile)
                if cc_profile is not None and isinstance(qp, MrcQueuePair):
                    cc_profile.attach(qp)
            else:
                qp = self.nic.create_qp(peer, transport=transport, options=settings)
        except Exception:
            self.nic.memory.deregister(region.rkey)
            raise
        connection = Connection(qp, region)
        self.connections[qp.qpn] = connection
        return connection

    def destroy_qp(self, qpn: int) -> None:
        """Take back a queue pair, its memory and its workloads, at once. Raises KeyError when there is none."""
        connection = self.connections.pop(qpn)
        self.nic.destroy_qp(qpn)
        self.nic.memory.deregister(connection.region.rkey)

    def add_workload(self, connection: Connection, workload: Workload, *others: Connection) -> int:
        """Let a workload run on its queue pair, or on several; returns its number."""
        self._workload_ids += 1
        for one in (connection, *others):
            one.workloads[self._workload_ids] = workload
        return self._workload_ids

    def workloads(self) -> dict[int, Workload]:
        """All workloads by number."""
        return {number: one for each in self.connections.values() for number, one in each.workloads.items()}

    def probe(
        self, peer: int, evs: list[int], now: int, deadline_ns: int, done: Callable[[list[ProbeResult]], None]
    ) -> None:
        """Probe each EV; `done` gets the results in the order of `evs`, as soon as all are there or at the deadline."""
        probe_round = _ProbeRound(deadline_ns, done)
        for ev in evs:
            self._probes[self.nic.probe(peer, ev, now)] = probe_round, probe_round.expect(ev)
        self._probe_rounds.append(probe_round)

    def _tell_workloads(self, event: Event, now: int) -> None:
        connection = self.connections.get(event.qpn)
        if connection is not None:
            for workload in connection.workloads.values():
                workload.on_event(event, now)

    def _probe_answered(self, event: ProbeAnswered) -> None:
        found = self._probes.pop(event.probe_id, None)
        if found is not None:
            probe_round, result = found
            if probe_round.answered(result, event.rtt_ns):
                self._finish(probe_round)

    def _finish(self, probe_round: _ProbeRound) -> None:
        self._probe_rounds.remove(probe_round)
        self._probes = {number: entry for number, entry in self._probes.items() if entry[0] is not probe_round}
        probe_round.finish()
