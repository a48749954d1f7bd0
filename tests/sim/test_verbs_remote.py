"""The verbs over the agents' operations, in virtual time: what goes over the control socket of a lab goes over this."""

from __future__ import annotations

from typing import Any

import pytest

from agents.verbs import QpState, WcOpcode, WcStatus
from testbed.lab.verbs import RemoteDevice, RemoteQp
from testbed.sim.agents import RefusedError
from testbed.sim.lab import SimLab
from testbed.topology.labspec import LabSpec

MS = 10**6
CONTENT = bytes(range(256)) * 100


class Ends:
    """Two hosts of a lab, with connected queue pairs."""

    def __init__(self) -> None:
        self.lab = SimLab(LabSpec(name="sim", planes=2, t0_groups=2, hosts_per_t0=1, t1s_per_plane=2), seed=1)
        self.near, self.far = (RemoteDevice(self.calling(host)) for host in ("h0", "h1"))
        self.qps: list[RemoteQp] = [self.near.create_qp(), self.far.create_qp()]
        for qp in self.qps:
            qp.modify(QpState.INIT)
        for qp, other, peer in ((*self.qps, 1), (*self.qps[::-1], 0)):
            qp.modify(QpState.RTR, peer_host=peer, dest_qp_num=other.qp_num, rq_psn=other.sq_psn)
            qp.modify(QpState.RTS)

    def calling(self, host: str) -> Any:
        return lambda op, **fields: self.lab.agents.call_each(op, {host: fields})[host]


def test_a_write_with_immediate_from_one_host_to_the_other() -> None:
    ends = Ends()
    source, target = ends.near.reg_mr(len(CONTENT)), ends.far.reg_mr(len(CONTENT), remote_write=True)
    source.write(CONTENT)
    ends.qps[0].post_write(5, source, target.address, target.rkey, imm_data=77)
    assert ends.qps[0].query().outstanding == 1
    ends.lab.run(200 * MS)
    assert target.read() == CONTENT
    (sent,), (received,) = ends.near.poll_cq(), ends.far.poll_cq()
    assert (sent.wr_id, sent.status, sent.opcode) == (5, WcStatus.SUCCESS, WcOpcode.RDMA_WRITE)
    assert (received.imm_data, received.byte_len) == (77, len(CONTENT))
    assert ends.near.query().phys_port_cnt == 2 and ends.qps[0].query().state is QpState.RTS


def test_wrong_rkey_is_the_error_that_hardware_gives() -> None:
    ends = Ends()
    source, target = ends.near.reg_mr(100), ends.far.reg_mr(100, remote_write=True)
    source.write(b"x" * 100)
    ends.qps[0].post_write(1, source, target.address, target.rkey ^ 1)
    ends.lab.run(200 * MS)
    assert [entry.status for entry in ends.near.poll_cq()] == [WcStatus.REM_ACCESS_ERR]
    assert not any(target.read()) and ends.qps[0].query().state is QpState.ERR


def test_what_cannot_be_is_said_in_words() -> None:
    ends = Ends()
    region = ends.near.reg_mr(10)
    fresh = ends.near.create_qp()
    for call, words in (
        (lambda: fresh.post_write(1, region, 0, 0), "sending needs RTS .*EINVAL"),
        (lambda: fresh.modify(QpState.RTS), "does not go from RESET to RTS"),
        (lambda: region.write(b"too long for it"), "15 bytes from 0 on are not inside a region of 10"),
        (lambda: RemoteQp(ends.calling("h0"), 999).query(), "no queue pair 999"),
    ):
        with pytest.raises(RefusedError, match=words):
            call()
    region.deregister()
    with pytest.raises(RefusedError, match="no memory region"):
        region.read()
    fresh.destroy()
