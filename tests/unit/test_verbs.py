"""The verbs over two NICs in virtual time: what a program can do, and the error for what it cannot."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from agents.mrc.profile import EvMode, ProfileState
from agents.verbs import (
    Access,
    CompletionQueue,
    Device,
    MemoryRegion,
    Qp,
    QpState,
    VerbsError,
    WcOpcode,
    WcStatus,
)
from testbed.sim.pair import MS, Pair

SIZE = 20_000
CONTENT = Random(3).randbytes(SIZE)


class Programs:
    """A program at each end, with a connected queue pair; the far one has a region that may be written to."""

    def __init__(self, **qp_attributes: Any) -> None:
        self.pair = Pair(seed=1, planes=2, t1s=4)
        self.devices = []
        for host in (self.pair.a, self.pair.b):
            device = Device(host.nic, host.settle)
            host.listeners.append(device.on_event)
            self.devices.append(device)
        self.near, self.far = self.devices
        self.cqs: list[CompletionQueue] = [device.create_cq(64) for device in self.devices]
        self.qps: list[Qp] = [device.create_qp(cq) for device, cq in zip(self.devices, self.cqs, strict=True)]
        for qp in self.qps:
            qp.modify(QpState.INIT, **qp_attributes)
        for qp, other, peer in ((*self.qps, self.pair.b), (*self.qps[::-1], self.pair.a)):
            qp.modify(QpState.RTR, peer_host=peer.host, dest_qp_num=other.qp_num, rq_psn=other.sq_psn)
            qp.modify(QpState.RTS)
        self.region: MemoryRegion = self.far.reg_mr(SIZE, Access.REMOTE_WRITE)

    def write(
        self, wr_id: int, data: bytes = CONTENT, *, offset: int = 0, rkey: int | None = None, **more: Any
    ) -> None:
        rkey = self.region.rkey if rkey is None else rkey
        self.qps[0].post_write(wr_id, memoryview(data), self.region.address + offset, rkey, **more)

    def sent(self) -> list[tuple[int, WcStatus]]:
        return [(entry.wr_id, entry.status) for entry in self.cqs[0].poll(100)]

    def untouched(self) -> bool:
        return not any(self.region.buffer)


def code_of(call: Any, *arguments: Any, **more: Any) -> str:
    with pytest.raises(VerbsError) as caught:
        call(*arguments, **more)
    return caught.value.code


def test_a_write_lands_and_completes_at_the_sender_only() -> None:
    programs = Programs()
    programs.write(5)
    programs.pair.wait(MS)
    assert bytes(programs.region.buffer) == CONTENT
    assert programs.sent() == [(5, WcStatus.SUCCESS)] and programs.cqs[1].poll(1) == []


def test_a_write_with_immediate_completes_at_both_ends() -> None:
    programs = Programs()
    for number in range(3):
        programs.write(number, CONTENT[: 100 * number], imm_data=number + 70)
    programs.pair.wait(MS)
    received = programs.cqs[1].poll(10)
    assert [(entry.imm_data, entry.byte_len, entry.opcode) for entry in received] == [
        (70 + number, 100 * number, WcOpcode.RECV_RDMA_WITH_IMM) for number in range(3)
    ]
    assert programs.sent() == [(number, WcStatus.SUCCESS) for number in range(3)]


def test_both_directions_at_once() -> None:
    programs = Programs()
    back = programs.near.reg_mr(SIZE, Access.REMOTE_WRITE)
    programs.write(1)
    programs.qps[1].post_write(2, memoryview(CONTENT), back.address, back.rkey)
    programs.pair.wait(MS)
    assert bytes(back.buffer) == bytes(programs.region.buffer) == CONTENT


class TestRemoteErrors:
    def after(self, programs: Programs) -> None:
        programs.write(2)  # what follows is flushed
        programs.pair.wait(MS)
        assert programs.untouched()
        assert programs.sent() == [(1, WcStatus.REM_ACCESS_ERR), (2, WcStatus.WR_FLUSH_ERR)]
        assert {qp.query().state for qp in programs.qps} == {QpState.ERR}
        assert code_of(programs.write, 3) == "EINVAL"

    def test_wrong_rkey(self) -> None:
        programs = Programs()
        programs.write(1, rkey=programs.region.rkey ^ 1)
        self.after(programs)

    @pytest.mark.parametrize("offset", [-1, 1, 1 << 40])
    def test_beyond_the_region(self, offset: int) -> None:
        programs = Programs()
        programs.write(1, offset=offset)
        self.after_beyond(programs)

    def after_beyond(self, programs: Programs) -> None:
        programs.pair.wait(MS)
        assert programs.sent() == [(1, WcStatus.REM_ACCESS_ERR)]
        assert programs.qps[0].query().state is QpState.ERR

    def test_not_a_byte_of_a_packet_that_is_partly_beyond(self) -> None:
        programs = Programs()
        programs.write(1, CONTENT[:100], offset=SIZE - 99)
        self.after(programs)

    def test_a_region_that_was_given_back(self) -> None:
        programs = Programs()
        programs.far.dereg_mr(programs.region)
        programs.write(1)
        self.after(programs)

    def test_a_region_that_is_not_for_remote_writes(self) -> None:
        programs = Programs()
        local = programs.far.reg_mr(SIZE)
        programs.write(1, rkey=local.rkey)
        self.after(programs)

    def test_a_far_end_that_is_silent(self) -> None:
        programs = Programs(retry_cnt=1, retry_cnt_exp=1)
        for plane in range(2):
            programs.pair.cut_port(programs.pair.b, plane)
        programs.write(1)
        programs.write(2)
        programs.pair.wait(10 * MS)
        assert programs.sent() == [(1, WcStatus.RETRY_EXC_ERR), (2, WcStatus.WR_FLUSH_ERR)]


class TestStates:
    def fresh(self) -> tuple[Programs, Qp]:
        programs = Programs()
        return programs, programs.near.create_qp(programs.cqs[0])

    @pytest.mark.parametrize("state", [QpState.RTR, QpState.RTS])
    def test_no_short_cut(self, state: QpState) -> None:
        _, qp = self.fresh()
        assert code_of(qp.modify, state) == "EINVAL"
        assert qp.state is QpState.RESET

    @pytest.mark.parametrize("steps", [0, 1, 2])
    def test_sending_needs_rts(self, steps: int) -> None:
        programs, qp = self.fresh()
        for state, given in (
            (QpState.INIT, {}),
            (QpState.RTR, {"peer_host": programs.pair.b.host, "dest_qp_num": 99, "rq_psn": 0}),
        )[:steps]:
            qp.modify(state, **given)
        assert code_of(qp.post_write, 1, memoryview(b"x"), programs.region.address, programs.region.rkey) == "EINVAL"
        programs.pair.wait(MS)
        assert programs.untouched() and programs.cqs[0].poll(1) == []

    def test_rtr_needs_the_far_end(self) -> None:
        _, qp = self.fresh()
        qp.modify(QpState.INIT)
        with pytest.raises(VerbsError, match="dest_qp_num is missing, peer_host is missing, rq_psn is missing"):
            qp.modify(QpState.RTR)
        assert qp.state is QpState.INIT

    def test_attributes_that_are_not_of_this_step(self) -> None:
        _, qp = self.fresh()
        assert code_of(qp.modify, QpState.INIT, colour="red") == "EINVAL"

    @pytest.mark.parametrize("given", [{"sq_psn": -1}, {"sq_psn": 1 << 24}, {"retry_cnt": -1}, {"retry_cnt_exp": 256}])
    def test_attributes_that_do_not_fit(self, given: dict[str, int]) -> None:
        _, qp = self.fresh()
        assert code_of(qp.modify, QpState.INIT, **given) == "EINVAL" and qp.state is QpState.RESET

    @pytest.mark.parametrize("given", [{"dest_qp_num": 1 << 24}, {"dest_qp_num": -1}, {"rq_psn": 1 << 24}])
    def test_nor_those_of_the_far_end(self, given: dict[str, int]) -> None:
        programs, qp = self.fresh()
        qp.modify(QpState.INIT)
        far = {"peer_host": programs.pair.b.host, "dest_qp_num": 99, "rq_psn": 0}
        assert code_of(qp.modify, QpState.RTR, **far | given) == "EINVAL" and qp.state is QpState.INIT

    def test_a_host_that_is_not_there(self) -> None:
        _, qp = self.fresh()
        qp.modify(QpState.INIT)
        assert code_of(qp.modify, QpState.RTR, peer_host=999, dest_qp_num=1, rq_psn=0) == "EINVAL"

    def test_err_flushes_and_reset_starts_anew(self) -> None:
        programs = Programs()
        programs.write(1)
        programs.qps[0].modify(QpState.ERR)
        assert programs.sent() == [(1, WcStatus.WR_FLUSH_ERR)]
        programs.qps[0].modify(QpState.RESET)
        programs.qps[0].modify(QpState.INIT)
        assert programs.qps[0].query().outstanding == 0

    def test_what_comes_to_a_queue_pair_that_is_not_ready_is_not_taken(self) -> None:
        programs = Programs()
        programs.qps[1].modify(QpState.RESET)
        programs.write(1)
        programs.pair.wait(MS // 2)
        assert programs.untouched() and programs.sent() == []


class TestLocalErrors:
    def test_immediates_have_32_bits(self) -> None:
        assert code_of(Programs().write, 1, imm_data=1 << 32) == "EINVAL"

    def test_addresses_have_64_bits_to_the_last_byte(self) -> None:
        programs = Programs()
        end = (1 << 64) - programs.region.address
        for offset in (-programs.region.address - 1, end - SIZE + 1):
            assert code_of(programs.write, 1, offset=offset) == "EINVAL"
        programs.write(1, offset=end - SIZE)
        programs.pair.wait(MS)
        assert programs.sent() == [(1, WcStatus.REM_ACCESS_ERR)] and programs.untouched()

    def test_keys_have_32_bits(self) -> None:
        assert code_of(Programs().write, 1, rkey=1 << 32) == "EINVAL"

    def test_the_send_queue_has_an_end(self) -> None:
        programs = Programs()
        room = programs.near.query().max_qp_wr
        for number in range(room):
            programs.qps[0].post_write(number, memoryview(CONTENT), programs.region.address, programs.region.rkey)
        assert code_of(programs.write, room) == "ENOMEM"

    def test_memory_that_cannot_be_written(self) -> None:
        assert code_of(Programs().far.reg_mr, memoryview(b"read only"), Access.REMOTE_WRITE) == "EINVAL"

    def test_a_completion_queue_that_overran_says_so(self) -> None:
        programs = Programs()
        for number in range(65):
            programs.write(number, b"x")
        programs.pair.wait(MS)
        assert code_of(programs.cqs[0].poll, 1) == "EOVERFLOW"
        assert code_of(programs.near.create_cq, 0) == "EINVAL"


def test_a_device_and_a_queue_pair_can_be_queried() -> None:
    programs = Programs()
    device, qp = programs.near.query(), programs.qps[0].query()
    assert (device.phys_port_cnt, device.port_active_mask, device.max_mtu) == (2, 0b11, 4096)
    assert device.max_wimm >= 32
    assert (qp.state, qp.dest_qp_num, qp.evs) == (QpState.RTS, programs.qps[1].qp_num, {"GOOD": 8})


def test_a_queue_pair_with_an_ev_profile() -> None:
    programs = Programs()
    profile = programs.pair.a.nic.create_ev_profile(1)
    profile.modify(state=ProfileState.OFFLINE, mode=EvMode.GENERATED, count=4)
    qp = programs.near.create_qp(programs.cqs[0])
    qp.modify(QpState.INIT, ev_profile=profile)
    to = {"peer_host": programs.pair.b.host, "dest_qp_num": 99, "rq_psn": 0}
    assert code_of(qp.modify, QpState.RTR, **to) == "EINVAL", "it is not ONLINE yet"
    profile.modify(state=ProfileState.ONLINE)
    qp.modify(QpState.RTR, **to)
    assert qp.query().evs == {"GOOD": 4}
    programs.near.destroy_qp(qp)
    profile.modify(state=ProfileState.OFFLINE)
