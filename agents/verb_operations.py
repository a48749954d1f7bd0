"""The verbs over an agent's control socket: `agents.verbs` on its NIC, for a program elsewhere (`testbed.lab.verbs`).

Regions and queue pairs are named by numbers; all queue pairs of an agent share one completion queue. Bytes go as
base64.
A call that cannot be is answered in the words of `VerbsError`, errno included.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from agents.agent import Program
from agents.operation import Field, Host, Operation
from agents.profile_operations import cc_profile, ev_profile
from agents.request import Reply, RequestError
from agents.verbs import Access, MemoryRegion, Qp, QpState

_MAX_REGION_BYTES = 1 << 30
_MAX_READ_BYTES = 1 << 20
_MAX_COMPLETIONS = 1000
_U24, _U32 = (1 << 24) - 1, (1 << 32) - 1


def _program(host: Host) -> Program:
    return host.agent.program()


def _region(host: Host, request: dict[str, Any], size: int) -> tuple[MemoryRegion, int]:
    """The region, and the offset where so many bytes of it are."""
    region = _program(host).regions.get(request["mr"])
    if region is None:
        raise RequestError(f"there is no memory region {request['mr']}")
    offset: int = request["offset"]
    if offset + size > len(region.buffer):
        raise RequestError(f"{size} bytes from {offset} on are not inside a region of {len(region.buffer)}")
    return region, offset


def _qp(host: Host, request: dict[str, Any]) -> Qp:
    qp = _program(host).device.qps.get(request["qp_num"])
    if qp is None:
        raise RequestError(f"there is no queue pair {request['qp_num']} of the verbs")
    return qp


def _query_device(host: Host, request: dict[str, Any], reply: Reply) -> None:
    reply.ok(**_program(host).device.query()._asdict())


def _reg_mr(host: Host, request: dict[str, Any], reply: Reply) -> None:
    access = Access.REMOTE_WRITE if request["remote_write"] else Access.LOCAL
    number, region = _program(host).register(request["size"], access)
    reply.ok(mr=number, address=region.address, rkey=region.rkey)


def _dereg_mr(host: Host, request: dict[str, Any], reply: Reply) -> None:
    _region(host, {**request, "offset": 0}, 0)
    program = _program(host)
    program.device.dereg_mr(program.regions.pop(request["mr"]))
    reply.ok()


def _read(host: Host, request: dict[str, Any], reply: Reply) -> None:
    region, offset = _region(host, request, request["size"])
    reply.ok(data=base64.b64encode(region.buffer[offset : offset + request["size"]]).decode())


def _write(host: Host, request: dict[str, Any], reply: Reply) -> None:
    try:
        data = base64.b64decode(request["data"], validate=True)
    except binascii.Error as error:
        raise RequestError(f"data is no base64: {error}") from error
    region, offset = _region(host, request, len(data))
    region.buffer[offset : offset + len(data)] = data
    reply.ok()


def _create_qp(host: Host, request: dict[str, Any], reply: Reply) -> None:
    program = _program(host)
    reply.ok(qp_num=program.device.create_qp(program.cq).qp_num)


def _modify_qp(host: Host, request: dict[str, Any], reply: Reply) -> None:
    qp = _qp(host, request)
    states = {state.value: state for state in QpState}
    if request["state"] not in states:
        raise RequestError(f"no state {request['state']!r:.80}; there are {', '.join(states)}")
    wrong = [name for name, value in request["attributes"].items() if type(value) is not int]
    if wrong:
        raise RequestError(f"attributes have to be whole numbers, and {', '.join(wrong)} is none")
    attributes = dict(request["attributes"])
    for name, find in (("ev_profile", ev_profile), ("cc_profile", cc_profile)):
        if name in attributes:  # by number
            attributes[name] = find(host, attributes[name])
    qp.modify(states[request["state"]], **attributes)
    reply.ok(sq_psn=qp.sq_psn)


def _query_qp(host: Host, request: dict[str, Any], reply: Reply) -> None:
    attributes = _qp(host, request).query()
    reply.ok(**{**attributes._asdict(), "state": attributes.state.value})


def _destroy_qp(host: Host, request: dict[str, Any], reply: Reply) -> None:
    _program(host).device.destroy_qp(_qp(host, request))
    reply.ok()


def _post_write(host: Host, request: dict[str, Any], reply: Reply) -> None:
    region, offset = _region(host, request, request["size"])
    data = region.buffer[offset : offset + request["size"]]
    _qp(host, request).post_write(
        request["wr_id"], data, request["remote_address"], request["rkey"], imm_data=request["imm_data"]
    )
    reply.ok()


def _poll_cq(host: Host, request: dict[str, Any], reply: Reply) -> None:
    entries = _program(host).cq.poll(request["limit"])
    reply.ok(
        completions=[
            {**entry._asdict(), "status": entry.status.value, "opcode": entry.opcode.value} for entry in entries
        ]
    )


_QP_NUM = {"qp_num": Field(int, 0, _U24)}
_MR = {"mr": Field(int)}

VERB_OPERATIONS: dict[str, Operation] = {
    "verbs-query-device": Operation(_query_device, {}),
    "verbs-reg-mr": Operation(
        _reg_mr, {"size": Field(int, 1, _MAX_REGION_BYTES), "remote_write": Field(bool, default=False)}
    ),
    "verbs-dereg-mr": Operation(_dereg_mr, _MR),
    "verbs-read": Operation(_read, {**_MR, "offset": Field(int), "size": Field(int, 0, _MAX_READ_BYTES)}),
    "verbs-write": Operation(_write, {**_MR, "offset": Field(int), "data": Field(str)}),
    "verbs-create-qp": Operation(_create_qp, {}),
    "verbs-modify-qp": Operation(_modify_qp, {**_QP_NUM, "state": Field(str), "attributes": Field(dict, default={})}),
    "verbs-query-qp": Operation(_query_qp, _QP_NUM),
    "verbs-destroy-qp": Operation(_destroy_qp, _QP_NUM),
    "verbs-post-write": Operation(
        _post_write,
        {
            **_QP_NUM,
            **_MR,
            "wr_id": Field(int),
            "offset": Field(int),
            "size": Field(int, 0, _MAX_REGION_BYTES),
            "remote_address": Field(int),
            "rkey": Field(int, 0, _U32),
            "imm_data": Field(int, 0, _U32, default=None),
        },
    ),
    "verbs-poll-cq": Operation(_poll_cq, {"limit": Field(int, 1, _MAX_COMPLETIONS, default=_MAX_COMPLETIONS)}),
}
