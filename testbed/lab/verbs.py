"""The verbs of `agents.verbs` on a host of a running lab, or of a simulated one, over the control socket.

    with AgentGroup.of(run_dir, ["h0"]) as agents:
        device = RemoteDevice(lambda op, **fields: agents.call_each(op, {"h0": fields})["h0"])

What cannot be raises the error of the caller's `call`, with the agent's words.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.verbs import DeviceAttributes, QpAttributes, QpState, WcOpcode, WcStatus, WorkCompletion

Call = Callable[..., dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RemoteRegion:
    """Memory of a host."""

    call: Call
    mr: int
    size: int
    address: int
    rkey: int

    def read(self, offset: int = 0, size: int | None = None) -> bytes:
        """Bytes of it; 1 MB at most in one call."""
        size = self.size - offset if size is None else size
        return base64.b64decode(self.call("verbs-read", mr=self.mr, offset=offset, size=size)["data"])

    def write(self, data: bytes, offset: int = 0) -> None:
        """Put bytes there."""
        self.call("verbs-write", mr=self.mr, offset=offset, data=base64.b64encode(data).decode())

    def deregister(self) -> None:
        """From now on nobody writes there."""
        self.call("verbs-dereg-mr", mr=self.mr)


class RemoteQp:
    """A queue pair of a host."""

    def __init__(self, call: Call, qp_num: int) -> None:
        self.qp_num = qp_num
        self.sq_psn = 0
        self._call = call

    def modify(self, state: QpState, **attributes: int) -> None:
        """As `agents.verbs.Qp.modify`; attributes are whole numbers, profiles by theirs."""
        answer = self._call("verbs-modify-qp", qp_num=self.qp_num, state=state.value, attributes=attributes)
        self.sq_psn = answer["sq_psn"]

    def post_write(
        self,
        wr_id: int,
        source: RemoteRegion,
        remote_address: int,
        rkey: int,
        *,
        offset: int = 0,
        size: int | None = None,
        imm_data: int | None = None,
    ) -> None:
        """Queue a WRITE of a part of `source`."""
        self._call(
            "verbs-post-write", qp_num=self.qp_num, wr_id=wr_id, mr=source.mr, offset=offset,
            size=source.size - offset if size is None else size, remote_address=remote_address, rkey=rkey,
            imm_data=imm_data,
        )  # fmt: skip

    def query(self) -> QpAttributes:
        """The attributes."""
        answer = self._call("verbs-query-qp", qp_num=self.qp_num)
        return QpAttributes(**{**_known(answer, QpAttributes._fields), "state": QpState(answer["state"])})

    def destroy(self) -> None:
        """Take it back."""
        self._call("verbs-destroy-qp", qp_num=self.qp_num)


class RemoteDevice:
    """A host's NIC; `call` asks its agent."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def query(self) -> DeviceAttributes:
        """What there is."""
        return DeviceAttributes(**_known(self._call("verbs-query-device"), DeviceAttributes._fields))

    def reg_mr(self, size: int, *, remote_write: bool = False) -> RemoteRegion:
        """Memory of so many zero bytes."""
        answer = self._call("verbs-reg-mr", size=size, remote_write=remote_write)
        return RemoteRegion(self._call, answer["mr"], size, answer["address"], answer["rkey"])

    def create_qp(self) -> RemoteQp:
        """A queue pair in RESET."""
        return RemoteQp(self._call, self._call("verbs-create-qp")["qp_num"])

    def poll_cq(self, limit: int = 1000) -> list[WorkCompletion]:
        """Completions of all queue pairs of this host, oldest first."""
        return [
            WorkCompletion(**{**entry, "status": WcStatus(entry["status"]), "opcode": WcOpcode(entry["opcode"])})
            for entry in self._call("verbs-poll-cq", limit=limit)["completions"]
        ]


def _known(answer: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: answer[name] for name in names}
