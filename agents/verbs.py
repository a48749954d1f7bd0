"""Verbs in Python, shaped like `mrc.h`: what a program sees of a NIC.

    device = Device(nic, now=..., kick=...)      # over the simulator: `testbed.sim.host`, in an agent: its loop
    memory = device.reg_mr(1 << 20, Access.REMOTE_WRITE)
    cq = device.create_cq(128)
    qp = device.create_qp(cq)
    qp.modify(QpState.INIT, ev_profile=...)
    qp.modify(QpState.RTR, peer_host=3, dest_qp_num=..., rq_psn=...)
    qp.modify(QpState.RTS)
    qp.post_write(1, memory.buffer[:4096], remote_address, rkey, imm_data=7)
    cq.poll(16)

Only WRITE and WRITE_WITH_IMM exist. Numbers and PSNs are exchanged between the two ends by other means, as everywhere.
What a call is given wrongly is refused at once with the errno of the C functions; what the far end refuses comes as a
completion in error, and the queue pair is in error from then on: whatever was posted after it is flushed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, IntFlag
from typing import Any, NamedTuple

from agents.memory import Region
from agents.mrc.cc_profile import CcProfile
from agents.mrc.profile import EvProfile
from agents.mrc.qp import MrcQueuePair
from agents.nic import Nic
from agents.transport import Event, ImmediateReceived, QpFailed, SendCompleted, Write

MAX_SEND_WR = 1024
_IMM_BITS = 32


class QpState(Enum):
    """States of a queue pair."""

    RESET = "RESET"
    INIT = "INIT"
    RTR = "RTR"  # ready to receive
    RTS = "RTS"  # ready to send
    ERR = "ERR"


class Access(IntFlag):
    """What may be done with registered memory, beside reading it here."""

    LOCAL = 0
    REMOTE_WRITE = 1 << 1


class WcStatus(Enum):
    """How a work request ended, by the names of `ibv_wc_status`."""

    SUCCESS = "SUCCESS"
    REM_ACCESS_ERR = "REM_ACCESS_ERR"  # no such rkey, or beyond its region
    RETRY_EXC_ERR = "RETRY_EXC_ERR"  # the far end is silent
    WR_FLUSH_ERR = "WR_FLUSH_ERR"  # the queue pair was in error before its turn came


class WcOpcode(Enum):
    """What a completion is of."""

    RDMA_WRITE = "RDMA_WRITE"
    RECV_RDMA_WITH_IMM = "RECV_RDMA_WITH_IMM"


class WorkCompletion(NamedTuple):
    """An entry of a completion queue; `imm_data` and `byte_len` are those of what was received."""

    wr_id: int
    status: WcStatus
    opcode: WcOpcode
    qp_num: int
    byte_len: int = 0
    imm_data: int | None = None


class VerbsError(ValueError):
    """A call that cannot be; `code` is the errno of the C function."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code


class MemoryRegion:
    """Registered memory; with REMOTE_WRITE the far end may write to `address`.. under `rkey`."""

    __slots__ = ("access", "address", "buffer", "rkey")

    def __init__(self, buffer: memoryview, address: int, rkey: int, access: Access) -> None:
        self.buffer = buffer
        self.address = address
        self.rkey = rkey
        self.access = access


class CompletionQueue:
    """Completions, oldest first. One that does not fit is lost, and every poll says so from then on."""

    def __init__(self, cqe: int) -> None:
        self._cqe = cqe
        self._entries: deque[WorkCompletion] = deque()
        self._overrun = False

    def poll(self, limit: int) -> list[WorkCompletion]:
        """Up to `limit` completions. Raises VerbsError when the queue has overrun."""
        if self._overrun:
            raise VerbsError("EOVERFLOW", f"more than {self._cqe} completions were waiting")
        return [self._entries.popleft() for _ in range(min(limit, len(self._entries)))]

    def add(self, completion: WorkCompletion) -> None:
        """A work request has ended."""
        if len(self._entries) >= self._cqe:
            self._overrun = True
        else:
            self._entries.append(completion)


class DeviceAttributes(NamedTuple):
    """What a device has room for."""

    host: int
    phys_port_cnt: int  # planes
    port_active_mask: int
    max_mtu: int
    max_qp_wr: int
    max_wimm: int
    max_ev_count: int


class QpAttributes(NamedTuple):
    """What is to be known of a queue pair."""

    state: QpState
    qp_num: int
    dest_qp_num: int | None
    sq_psn: int
    evs: dict[str, int]  # in each state
    outstanding: int  # work requests that have not completed


# state -> (states that lead there, attributes it needs)
_STEPS: dict[QpState, tuple[set[QpState], set[str]]] = {
    QpState.INIT: ({QpState.RESET}, set()),
    QpState.RTR: ({QpState.INIT}, {"peer_host", "dest_qp_num", "rq_psn"}),
    QpState.RTS: ({QpState.RTR}, set()),
    QpState.ERR: (set(QpState), set()),
    QpState.RESET: (set(QpState), set()),
}
_OPTIONAL = {QpState.INIT: {"ev_profile", "cc_profile", "sq_psn", "max_wimm", "retry_cnt", "retry_cnt_exp", "mpr"}}
_SETTING = {"retry_cnt": "linear_retries", "retry_cnt_exp": "exponential_retries", "sq_psn": "start_psn"}
_BITS = {"dest_qp_num": 24, "rq_psn": 24, "sq_psn": 24, "retry_cnt": 8, "retry_cnt_exp": 8}


class Qp:
    """A queue pair as a program sees it."""

    def __init__(self, device: Device, qp_num: int, send_cq: CompletionQueue, recv_cq: CompletionQueue) -> None:
        self.qp_num = qp_num
        self.state = QpState.RESET
        self.sq_psn = 0
        self._device = device
        self._send_cq = send_cq
        self._recv_cq = recv_cq
        self._given: dict[str, Any] = {}
        self._outstanding: deque[int] = deque()
        self._inner: MrcQueuePair | None = None

    def modify(self, state: QpState, **attributes: Any) -> None:
        """Go to another state with what that state needs. Raises VerbsError, and then nothing has changed."""
        before, needed = _STEPS[state]
        if self.state not in before:
            raise VerbsError("EINVAL", f"a queue pair does not go from {self.state.value} to {state.value}")
        missing = needed - set(attributes)
        unknown = set(attributes) - needed - _OPTIONAL.get(state, set())
        if missing or unknown:
            words = [f"{name} is missing" for name in sorted(missing)] + [f"no {name} here" for name in sorted(unknown)]
            raise VerbsError("EINVAL", f"{self.state.value} to {state.value}: {', '.join(words)}")
        for name, bits in _BITS.items():
            if not 0 <= (attributes.get(name) or 0) < 1 << bits:
                raise VerbsError("EINVAL", f"{name} {attributes[name]} does not fit in {bits} bits")
        if state is QpState.RTR:
            self._connect(attributes)
        elif state is QpState.ERR:
            self._flush(WcStatus.WR_FLUSH_ERR)
            self.close()
        elif state is QpState.RESET:
            self._outstanding.clear()
            self.close()
        elif state is QpState.INIT:
            self._given = attributes
            given = attributes.get("sq_psn")
            self.sq_psn = self._device.nic.draw_psn() if given is None else given
        self.state = state

    def post_write(
        self, wr_id: int, data: memoryview, remote_address: int, rkey: int, *, imm_data: int | None = None
    ) -> None:
        """Queue a WRITE of `data`, which has to stay as it is until it has completed. Raises VerbsError."""
        if self.state is not QpState.RTS or self._inner is None:
            raise VerbsError("EINVAL", f"queue pair {self.qp_num} is {self.state.value}; sending needs RTS")
        if len(self._outstanding) >= MAX_SEND_WR:
            raise VerbsError("ENOMEM", f"{MAX_SEND_WR} work requests are queued already")
        if imm_data is not None and not 0 <= imm_data < 1 << _IMM_BITS:
            raise VerbsError("EINVAL", f"imm_data {imm_data} does not fit in {_IMM_BITS} bits")
        if not 0 <= rkey < 1 << 32 or not 0 <= remote_address <= (1 << 64) - len(data):
            raise VerbsError("EINVAL", "the rkey has 32 bits, the address 64")
        self._outstanding.append(wr_id)
        self._inner.post(Write(wr_id, data, remote_address, rkey, imm_data))
        self._device.kick()

    def query(self) -> QpAttributes:
        """The attributes."""
        inner = self._inner
        return QpAttributes(
            self.state,
            self.qp_num,
            self._given.get("dest_qp_num"),
            self.sq_psn,
            {} if inner is None else inner.ev_counts(),
            len(self._outstanding),
        )

    def close(self) -> None:
        """Take the queue pair off the NIC; what is under way is lost."""
        if self._inner is not None:
            self._device.nic.destroy_qp(self.qp_num)
            self._inner = None

    def on_event(self, event: Event) -> None:
        """What the NIC has to say about this queue pair."""
        if isinstance(event, SendCompleted):
            if self._outstanding:
                self._complete(self._outstanding.popleft(), WcStatus.SUCCESS)
        elif isinstance(event, ImmediateReceived):
            self._recv_cq.add(
                WorkCompletion(
                    0, WcStatus.SUCCESS, WcOpcode.RECV_RDMA_WITH_IMM, self.qp_num, event.byte_count, event.immediate
                )
            )
        elif isinstance(event, QpFailed):
            self.state = QpState.ERR  # the NIC sends no more data, but goes on telling the far end why
            self._flush(WcStatus.REM_ACCESS_ERR if event.refused else WcStatus.RETRY_EXC_ERR)

    def _connect(self, attributes: dict[str, Any]) -> None:
        nic, given = self._device.nic, dict(self._given)
        profile: EvProfile | None = given.pop("ev_profile", None)
        cc_profile: CcProfile | None = given.pop("cc_profile", None)
        settings = {_SETTING.get(name, name): value for name, value in given.items()} | {"start_psn": self.sq_psn}
        try:
            options = nic.transport_config(**settings)
            if cc_profile is not None:
                options = cc_profile.apply(options)
            inner = nic.create_qp(attributes["peer_host"], options=options, qpn=self.qp_num, ev_profile=profile)
        except ValueError as error:
            raise VerbsError("EINVAL", str(error)) from error
        if cc_profile is not None:
            cc_profile.attach(inner)
        inner.connect(attributes["dest_qp_num"], attributes["rq_psn"])
        self._inner = inner
        self._given |= attributes

    def _complete(self, wr_id: int, status: WcStatus) -> None:
        self._send_cq.add(WorkCompletion(wr_id, status, WcOpcode.RDMA_WRITE, self.qp_num))

    def _flush(self, first: WcStatus) -> None:
        """The oldest work request ends with this status, all the others are flushed."""
        status = first
        while self._outstanding:
            self._complete(self._outstanding.popleft(), status)
            status = WcStatus.WR_FLUSH_ERR


class Device:
    """An open NIC. Its driver has to hand every event of the NIC to `on_event`."""

    def __init__(self, nic: Nic, kick: Callable[[], None]) -> None:
        """`kick` makes the driver look for packets to send, after something was posted."""
        self.nic = nic
        self.kick = kick
        self.qps: dict[int, Qp] = {}  # by number

    def query(self) -> DeviceAttributes:
        """What there is."""
        nic, defaults = self.nic, self.nic.transport_config()
        return DeviceAttributes(
            nic.config.host, nic.config.planes, nic.ports_up, nic.config.payload_mtu, MAX_SEND_WR, defaults.max_wimm,
            nic.max_evs,
        )  # fmt: skip

    def reg_mr(self, memory: int | bytearray | memoryview, access: Access = Access.LOCAL) -> MemoryRegion:
        """Register so many zero bytes, or a buffer. Raises VerbsError for one that cannot be written to."""
        try:
            if access & Access.REMOTE_WRITE:
                region: Region = self.nic.register_memory(memory)
                return MemoryRegion(region.buffer, region.address, region.rkey, access)
        except ValueError as error:
            raise VerbsError("EINVAL", str(error)) from error
        return MemoryRegion(memoryview(bytearray(memory) if isinstance(memory, int) else memory), 0, 0, access)

    def dereg_mr(self, region: MemoryRegion) -> None:
        """From now on nobody writes there."""
        if region.access & Access.REMOTE_WRITE:
            self.nic.memory.deregister(region.rkey)

    def create_cq(self, cqe: int) -> CompletionQueue:
        """A completion queue for so many entries."""
        if cqe < 1:
            raise VerbsError("EINVAL", f"a completion queue for {cqe} entries")
        return CompletionQueue(cqe)

    def create_qp(self, send_cq: CompletionQueue, recv_cq: CompletionQueue | None = None) -> Qp:
        """A queue pair in RESET; both kinds of completions go to one queue unless there are two."""
        qp = Qp(self, self.nic.reserve_qpn(), send_cq, recv_cq or send_cq)
        self.qps[qp.qp_num] = qp
        return qp

    def destroy_qp(self, qp: Qp) -> None:
        """Take a queue pair back; what is under way is lost, and completes no more."""
        qp.close()
        del self.qps[qp.qp_num]

    def on_event(self, event: Event) -> None:
        """An event of the NIC; those of other users' queue pairs are not for us."""
        qp = self.qps.get(event.qpn)
        if qp is not None:
            qp.on_event(event)
