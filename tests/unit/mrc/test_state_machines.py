"""Whatever happens to a queue pair, in whatever order: no byte is lost or written twice, nothing hangs, EVs remain."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agents.message import Message
from agents.mrc.ev_set import Ev
from agents.mrc.ev_state import State
from agents.mrc.profile import EvMode, ProfileState
from agents.mrc.scoreboard import ARRIVED, FLYING, LOST, Scoreboard, Sent
from agents.transport import ImmediateReceived, QpFailed, SendCompleted, Write
from agents.wire import dscp
from agents.wire import ev as ev_format
from agents.wire.packet import Packet
from agents.wire.packet import Write as WriteBody
from tests.unit.mrc.scripted import ONE_WAY_NS, US, ScriptedPair, mark, trim

PLANES, T1S, EVS = 3, 3, 9
MIN_ACTIVE = 4
PACKET = 4096
CONTENT = Random(9).randbytes(24 * PACKET)
KINDS = ("lose", "double", "hold back", "mark", "trim", "trim at the last hop")


class QueuePairMachine(RuleBasedStateMachine):
    """Two queue pairs, a profile at the sender, and a wire that does to each packet what chance says."""

    @initialize(seed=st.integers(0, 1 << 16), congestion=st.sampled_from(["nscc", "fixed"]))
    def connect(self, seed: int, congestion: str) -> None:
        self.rng = Random(seed)
        self.shares = dict.fromkeys(KINDS, 0.0)
        pair = self.pair = ScriptedPair(seed=seed, planes=PLANES, t1s=T1S, congestion=congestion)
        self.profile = pair.nics[0].create_ev_profile(1)
        self.profile.modify(state=ProfileState.OFFLINE, mode=EvMode.GENERATED, count=EVS, min_active=MIN_ACTIVE)
        self.profile.modify(state=ProfileState.ONLINE)
        config = pair.qps[0].config
        near = pair.nics[0].create_qp(1, options=config, ev_profile=self.profile)
        far = pair.nics[1].create_qp(0, options=config)
        near.connect(far.qpn, far.start_psn)
        far.connect(near.qpn, near.start_psn)
        pair.qps = [near, far]
        pair.rule, pair.alter = self.fate, self.alter
        self.region = pair.nics[1].register_memory(len(CONTENT) * 40)
        self.posted: list[int] = []
        self.down: set[tuple[int, int]] = set()
        self.denied: set[int] = set()

    def fate(self, host: int, packet: Packet) -> list[int]:
        if any((end, ev_format.plane_of(packet.ev)) in self.down for end in range(2)):
            return []
        drawn = self.rng.random
        if drawn() < self.shares["lose"]:
            return []
        delays = [ONE_WAY_NS + (self.rng.randrange(20 * US) if drawn() < self.shares["hold back"] else 0)]
        return delays * 2 if drawn() < self.shares["double"] else delays

    def alter(self, host: int, packet: Packet, data: bytes) -> bytes:
        if not isinstance(packet.body, WriteBody):
            return data
        for kind, value in (("trim", dscp.TRIMMED), ("trim at the last hop", dscp.TRIMMED_LASTHOP)):
            if self.rng.random() < self.shares[kind]:
                return trim(data, value)
        return mark(data) if self.rng.random() < self.shares["mark"] else data

    @precondition(lambda self: len(self.posted) < 40)
    @rule(size=st.integers(0, len(CONTENT)), immediate=st.booleans())
    def post(self, size: int, immediate: bool) -> None:
        number = len(self.posted)
        self.pair.post(
            CONTENT[:size], self.region, offset=number * len(CONTENT), immediate=number if immediate else None,
            wr_id=number,
        )  # fmt: skip
        self.posted.append(size)

    @rule(kind=st.sampled_from(KINDS), share=st.sampled_from([0.0, 0.02, 0.3]))
    def weather(self, kind: str, share: float) -> None:
        self.shares[kind] = share

    @rule(for_us=st.integers(1, 120))
    def time_passes(self, for_us: int) -> None:
        self.pair.run(for_us * US)

    @rule(host=st.integers(0, 1), port=st.integers(0, PLANES - 1))
    def port_changes(self, host: int, port: int) -> None:
        if (host, port) in self.down:
            self.down.remove((host, port))
            self.pair.nics[host].set_port_up(port, True, self.pair.now)
        elif len({plane for _, plane in self.down} | {port}) < PLANES:
            self.down.add((host, port))
            self.pair.nics[host].set_port_up(port, False, self.pair.now)

    @rule(which=st.integers(0, EVS - 1))
    def controller(self, which: int) -> None:
        ev = self.profile.evs()[which][0]
        if ev in self.denied:
            self.denied.remove(ev)
            self.profile.set_state([ev], State.GOOD, self.pair.now)
        elif len(self.denied) < 2:
            self.denied.add(ev)
            self.profile.set_state([ev], State.DENIED, self.pair.now)

    @rule(mpr=st.sampled_from([128, 256, 1024]))
    def receiver_window(self, mpr: int) -> None:
        self.pair.qps[1].set_mpr(mpr)

    @invariant()
    def enough_evs_remain(self) -> None:
        counts = self.pair.qps[0].ev_counts()
        # Retiring stops at the floor; only the controller goes below it.
        assert counts.get("GOOD", 0) + counts.get("SKIP", 0) >= MIN_ACTIVE - len(self.denied)

    @invariant()
    def nothing_has_failed(self) -> None:
        assert not self.pair.of_kind(QpFailed) and not self.pair.of_kind(QpFailed, host=1)

    @invariant()
    def what_flies_is_what_is_counted(self) -> None:
        board = self.pair.qps[0]._requester._board
        flying = sum(record.size for plane in range(PLANES) for record in board.flying(plane))
        assert flying == board.bytes_in_flight

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        self.shares = dict.fromkeys(KINDS, 0.0)
        for host, port in list(self.down):
            self.port_changes(host, port)
        self.pair.run(40_000 * US)
        assert self.pair.qps[0].idle, "it hangs"
        for number, size in enumerate(self.posted):
            at = number * len(CONTENT)
            assert bytes(self.region.buffer[at : at + size]) == CONTENT[:size]
            assert not any(self.region.buffer[at + size : at + len(CONTENT)])
        packets = sum(max(1, -(-size // PACKET)) for size in self.posted)
        assert self.pair.qps[1].counters.packets_received == packets
        assert self.pair.qps[1].counters.bytes_received == sum(self.posted)
        assert [event.wr_id for event in self.pair.of_kind(SendCompleted)] == list(range(len(self.posted)))
        received = [event.immediate for event in self.pair.of_kind(ImmediateReceived, host=1)]
        assert received == sorted(received)
        assert self.pair.qps[0].ev_counts().get("ASSUMED_BAD", 0) == 0, "all paths are good again"


class ScoreboardMachine(RuleBasedStateMachine):
    """The scoreboard against a plain dictionary of what became of each PSN."""

    def __init__(self) -> None:
        super().__init__()
        self.board = Scoreboard(0, 2)
        self.evs = [Ev(ev_format.make(plane, 0)) for plane in range(2)]
        self.message = Message(Write(0, memoryview(bytes(1)), 0, 0), 0, 1, 0, 0)
        self.fate: dict[int, str] = {}
        self.record: dict[int, Sent] = {}
        self.cack = -1

    @rule(plane=st.integers(0, 1))
    def send_new(self, plane: int) -> None:
        self.send(len(self.fate), plane)

    @rule(plane=st.integers(0, 1), which=st.integers(0, 200))
    def send_again(self, plane: int, which: int) -> None:
        lost = [number for number, fate in self.fate.items() if fate == "lost"]
        if lost:
            self.send(lost[which % len(lost)], plane)

    def send(self, number: int, plane: int) -> None:
        self.record[number] = self.board.sent(number, self.message, 10, self.evs[plane], 0)
        self.fate[number] = "flying"

    @rule(which=st.integers(0, 200))
    def lose(self, which: int) -> None:
        flying = [number for number, fate in self.fate.items() if fate == "flying"]
        if flying:
            number = flying[which % len(flying)]
            self.board.lose(self.record[number], blame=True)
            self.fate[number] = "lost"

    @rule(ahead=st.integers(0, 4), offset=st.integers(-70, 70), bitmap=st.integers(0, (1 << 64) - 1))
    def report(self, ahead: int, offset: int, bitmap: int) -> None:
        """Only of what has been sent, as the requester makes sure; older cumulative acks come too."""
        sent = len(self.fate)
        cack = min(self.cack + ahead, sent - 1)
        base = cack + offset
        mask = sum(1 << bit for bit in range(64) if bitmap >> bit & 1 and 0 <= base + bit < sent)
        covered = {number for number in self.fate if number <= cack or (base <= number and mask >> number - base & 1)}
        covered = {number for number in covered if number < base + 64 or number <= cack}
        expected = {number: self.fate[number] for number in covered if self.fate[number] != "arrived"}
        news = self.board.acknowledge(cack, base, mask)
        assert {record.psn: {FLYING: "flying", LOST: "lost"}[record.fate] for record in news} == expected
        for record in news:
            record.fate = ARRIVED
            self.fate[record.psn] = "arrived"
        self.cack = max(self.cack, cack)

    @invariant()
    def agrees(self) -> None:
        flying = {number for number, fate in self.fate.items() if fate == "flying"}
        assert self.board.bytes_in_flight == 10 * len(flying)
        assert len(self.board) == sum(fate != "arrived" for fate in self.fate.values())
        assert self.board.una == self.cack + 1
        seen = [record for plane in range(2) for record in self.board.flying(plane)]
        assert {record.psn for record in seen} == flying
        for number, fate in self.fate.items():
            latest = self.board.latest(number)
            assert (latest is None) == (fate == "arrived")


_SETTINGS: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
}
TestQueuePair = QueuePairMachine.TestCase
TestQueuePair.settings = settings(max_examples=150, stateful_step_count=30, **_SETTINGS)
TestScoreboard = ScoreboardMachine.TestCase
TestScoreboard.settings = settings(max_examples=100, stateful_step_count=40, **_SETTINGS)
