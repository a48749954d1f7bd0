"""Two hosts and a queue pair between them, so that a test reads as sentences (after quinn-proto's `Pair`).

    pair = Pair(seed=7, planes=2, t1s=4, loss=0.01)
    pair.after(20 * US, lambda: pair.kill_path(plane=0, t1=2))
    pair.transfer([64 << 10] * 8)

h0 -- T0 0 -- T1 0..t1s-1 -- T0 1 -- h1, once in each plane; `a` is h0 and `b` is h1. Times are real (dilation 1): the
links run at 100 Gb/s, a round trip takes about 6 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from agents.mrc.config import MrcConfig
from agents.nic import Nic
from agents.nic_config import NicConfig
from agents.transport import Event, ImmediateReceived, QpFailed, QueuePair, SendCompleted, Write
from testbed.sim.events import Action, EventList
from testbed.sim.host import SimHost
from testbed.sim.link import CableSpec
from testbed.sim.memory import MemoryWatch
from testbed.sim.network import SimNetwork
from testbed.topology import clos as clos_model
from testbed.topology.labspec import LabSpec, Queue, Rates

US, MS, S = 10**3, 10**6, 10**9  # ns

DEADLINE_NS = 2 * S
REAL_RATES = Rates.model_validate({"host": "100 Gb/s", "fabric": "100 Gb/s"})
PROBE_INTERVAL_NS = 50 * US  # the lab file's 50 ms would be as long as ten thousand round trips


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a transfer was like: its time in ns, and what both hosts reported meanwhile."""

    took_ns: int
    events: list[Event]

    def of_kind(self, kind: type[Event]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


class Pair:
    """Two hosts, connected."""

    def __init__(
        self,
        *,
        seed: int,
        planes: int = 2,
        t1s: int = 4,
        cable: CableSpec | None = None,
        loss: float = 0.0,
        queue: Queue | None = None,
        same_rack: bool = False,
        **options: Any,
    ) -> None:
        """`loss` befalls packets at each switch port; `options` are settings of MrcConfig, the same at both ends."""
        spec = LabSpec(
            name="pair",
            planes=planes,
            t0_groups=1 if same_rack else 2,
            hosts_per_t0=2 if same_rack else 1,
            t1s_per_plane=t1s,
            rates=REAL_RATES,
            queue=queue or Queue(),
        )
        rng = Random(seed)
        self.events = EventList()
        self.network = SimNetwork(clos_model.build(spec), self.events, rng, cable or CableSpec(), loss=loss)
        self._rng = Random(rng.getrandbits(64))
        self.log: list[Event] = []  # of both hosts
        self._failures: list[Event] = []
        self.a, self.b = (self._host(host, spec) for host in range(2))
        config = MrcConfig.dilated(1, **{"probe_interval_ns": PROBE_INTERVAL_NS, **options})
        self.qp_a: QueuePair = self.a.nic.create_qp(1, options=config)
        self.qp_b: QueuePair = self.b.nic.create_qp(0, options=config)
        self.a.nic.connect(self.qp_a.qpn, self.qp_b.qpn, self.qp_b.start_psn)
        self.b.nic.connect(self.qp_b.qpn, self.qp_a.qpn, self.qp_a.start_psn)

    def _host(self, host: int, spec: LabSpec) -> SimHost:
        config = NicConfig(
            host=host,
            planes=spec.planes,
            t0_groups=spec.t0_groups,
            hosts_per_t0=spec.hosts_per_t0,
            t1s_per_plane=spec.t1s_per_plane,
        )
        nic = Nic(config, Random(self._rng.getrandbits(64)))
        sim_host = SimHost(host, nic, self.network, self.events)
        sim_host.listeners.append(self._listen)
        return sim_host

    def _listen(self, event: Event) -> None:
        self.log.append(event)
        if isinstance(event, QpFailed):
            self._failures.append(event)

    # -- what happens --------------------------------------------------------------------------------------------

    def after(self, delay_ns: int, action: Action) -> None:
        """Let something happen in a while."""
        self.events.after(delay_ns, action)

    def wait(self, for_ns: int) -> None:
        """Let so much virtual time pass."""
        self.events.run(until=lambda: False, deadline_ns=self.events.now + for_ns)

    def kill_path(self, plane: int, t1: int, *, towards: SimHost | None = None) -> None:
        """The path loses everything that goes `towards` a host, by default both ways, and nobody is told."""
        link = self._uplink_of_a(plane, t1)
        self.network.silence(link, up=towards is not self.a, down=towards is not self.b)

    def revive_path(self, plane: int, t1: int) -> None:
        """The path works again, both ways, and nobody is told."""
        self.network.unsilence(self._uplink_of_a(plane, t1))

    def _uplink_of_a(self, plane: int, t1: int) -> str:
        return f"{clos_model.t0_name(plane, 0)}:{clos_model.t1_name(plane, t1)}"

    def cut_port(self, host: SimHost, plane: int) -> None:
        """A host's NIC-T0 link goes down: that host sees it, the other one does not."""
        self.network.cut(self._nic_link(host, plane))

    def mend_port(self, host: SimHost, plane: int) -> None:
        """A host's NIC-T0 link comes up again."""
        self.network.mend(self._nic_link(host, plane))

    def _nic_link(self, host: SimHost, plane: int) -> str:
        group = self.network.clos.group_of(host.host)
        return f"{clos_model.host_name(host.host)}:{clos_model.t0_name(plane, group)}"

    # -- transfers -----------------------------------------------------------------------------------------------

    def transfer(
        self, sizes: Sequence[int], *, sender: SimHost | None = None, deadline_ns: int = DEADLINE_NS
    ) -> Outcome:
        """Write messages of these sizes in bytes to the far end, each with an immediate, and wait until all is done.

        Raises AssertionError unless, before `deadline_ns` of virtual time have passed, every message is complete at
        both ends, in order, every byte was placed right and exactly once, and no queue pair failed.
        """
        return self.transfers({sender or self.a: sizes}, deadline_ns=deadline_ns)

    def transfers(self, by_sender: dict[SimHost, Sequence[int]], *, deadline_ns: int = DEADLINE_NS) -> Outcome:
        """As `transfer`, from one or both hosts at once; the outcome is that of all senders together."""
        flows = [Flow(self, sender, sizes, self._rng) for sender, sizes in by_sender.items()]
        started = self.events.now
        log_before = len(self.log)
        for flow in flows:
            flow.start()

        finished = self.events.run(
            until=lambda: all(flow.done() for flow in flows) or bool(self._failures),
            deadline_ns=started + deadline_ns,
        )
        assert not self._failures, self._failures
        assert finished, f"not done after {deadline_ns / MS:g} ms: {[str(flow) for flow in flows]}"
        for flow in flows:
            flow.check()
        return Outcome(self.events.now - started, self.log[log_before:])

    def far_end(self, host: SimHost) -> SimHost:
        """The other host."""
        return self.b if host is self.a else self.a

    def queue_pair(self, host: SimHost) -> QueuePair:
        """The host's end of the connection."""
        return self.qp_a if host is self.a else self.qp_b


class Flow:
    """Messages from one host to the other, and their check."""

    def __init__(self, pair: Pair, sender: SimHost, sizes: Sequence[int], rng: Random) -> None:
        self._sender = sender
        self._receiver = pair.far_end(sender)
        self._queue_pair = pair.queue_pair(sender)
        self._sizes = sizes
        self._content = rng.randbytes(sum(sizes))
        self._region = self._receiver.nic.register_memory(len(self._content))
        self._watch = MemoryWatch(self._region, self._content)
        self._receiver.watches.append(self._watch)
        self._completed: list[int] = []
        self._received: list[tuple[int, int]] = []
        sender.listeners.append(self._at_sender)
        self._receiver.listeners.append(self._at_receiver)

    def start(self) -> None:
        """Post all messages."""
        view, offset = memoryview(self._content), 0
        for number, size in enumerate(self._sizes):
            address = self._region.address + offset
            data = view[offset : offset + size]
            self._queue_pair.post(Write(number, data, address, self._region.rkey, immediate=number))
            offset += size
        self._sender.settle()

    def _at_sender(self, event: Event) -> None:
        if isinstance(event, SendCompleted):
            self._completed.append(event.wr_id)

    def _at_receiver(self, event: Event) -> None:
        if isinstance(event, ImmediateReceived):
            self._received.append((event.immediate, event.byte_count))

    def done(self) -> bool:
        """Whether both ends hold all messages for complete."""
        return len(self._completed) >= len(self._sizes) and len(self._received) >= len(self._sizes)

    def check(self) -> None:
        """Raises AssertionError when anything is wrong with what was delivered."""
        self._sender.listeners.remove(self._at_sender)
        self._receiver.listeners.remove(self._at_receiver)
        self._receiver.watches.remove(self._watch)
        assert self._completed == list(range(len(self._sizes)))
        assert self._received == list(enumerate(self._sizes)), "immediates come once each, in the order of sending"
        self._watch.check()

    def __str__(self) -> str:
        done = f"{len(self._completed)} completed, {len(self._received)} received of {len(self._sizes)} messages"
        return f"h{self._sender.host}: {done}, {self._queue_pair.counters}"
