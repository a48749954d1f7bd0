"""docs/mrc.md: how the transport works, with the parts that are tables in the code made from them.

`python -m agents.mrc.document` writes the page to stdout; a test holds that docs/mrc.md is it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import fields

from agents.mrc.config import MrcConfig
from agents.mrc.congestion import ALGORITHMS
from agents.mrc.congestion.base import Fabric
from agents.mrc.congestion.nscc import NsccProfile
from agents.mrc.ev_state import TRANSITIONS, USABLE, State
from agents.wire import dscp
from agents.wire.headers import NackReason, Opcode

_HEAD = """\
# The transport

MRC sprays each queue pair packet by packet over many paths, and routes around failures from the endpoint alone. This
page follows a packet through `agents/mrc`; the tables and the diagram are made from the code
(`python -m agents.mrc.document`).

## A packet's life

1. `requester` cuts a WRITE into packets of the path MTU. Each carries the address that its bytes go to, so that the
   receiver can place it whatever the order.
2. `ev_set` draws the path when a port takes the packet: an entropy value (EV) names plane and T0 uplink, and the SRv6
   address is computed from it. Every plane has the same number of turns in a round; the order is drawn anew each round.
3. `responder` places the bytes, marks the PSN in `arrivals`, and reports by SACK: a cumulative ack, 64 bits around the
   packet that caused it, the EV and the time stamp of that packet, congestion marks, and which of its ports are down.
4. `scoreboard` takes the report in; `loss` decides what is lost: what others of its EV have overtaken, or what is
   overdue by the evidence of a packet of its plane that left half a round trip later, at least, and the third after it
   or a later one, and has arrived. It goes again at once on another path, and its EV is retired.
5. `doubts` looks for the proof that it was only late: then its EV is used again at once. Otherwise `probing` asks a
   retired EV again, and brings it back when enough probes in a row are answered. One that relapses soon waits longer.
6. `congestion` says how much may fly.

A lost tail is found by a reliability probe; when nothing is heard at all, timeouts grow linearly, then exponentially,
and in the end the queue pair fails. Reports go back as `reverse` says. Ports that lose carrier are told to the peer at
once (Port Status Update, and a bitmap in every SACK), and both ends leave that plane until the port is back.

## When the fabric is full

| what the fabric does | what the receiver answers | what the sender does |
|---|---|---|
| marks a packet (CE), in the core | a SACK at once, with the mark and the EV | the EV is SKIP: its next turn passes |
| trims a packet in the core | NACK TRIMMED at once, on the control class | sends it again at once; the EV is SKIP |
| trims a packet at the last hop | NACK TRIMMED_LASTHOP | sends it again; no path is to blame, the receiver is full |
| drops a packet | nothing | finds the hole; the EV is ASSUMED_BAD |

A trimmed packet is no loss, and retires nothing. What marks, trims and delays mean for the window is the subject of
`agents/mrc/congestion/nscc.py`.
"""

_VERBS = """\
## Profiles

`agents/mrc/profile.py` has the EV profiles of `mrc_ctl.h` (explicit, generated, ecmp; INIT, OFFLINE, ONLINE; DENIED by
the controller; events with a drop count), `agents/mrc/cc_profile.py` those of congestion control (an algorithm and its
attributes). A host's agent takes them over its control socket (`agents/profile_operations.py`): `ev-profile-create`,
`-modify`, `-query`, `-replace`, `-deny`, `-events`, `-destroy`, and `cc-profile-create`, `-modify`, `-query`,
`-destroy`. `qp-create` names them as `ev_profile` and `cc_profile`, and so does the step to INIT of the verbs. In a
scenario, `t1s: 1` of a workload makes such a profile: its flows use the first T1 of each plane only.

## Verbs

`agents/verbs.py` is what a program sees: devices, memory regions, queue pairs with their states, completion queues.
`testbed/lab/verbs.py` has the same for a host of a running lab. After `./mrclab up tiny`, as root, with
`.venv/bin/python`:

```python
from agents.verbs import QpState
from testbed.lab.running import open_lab
from testbed.lab.verbs import RemoteDevice

with open_lab("tiny") as lab:
    near, far = (RemoteDevice(lab.agent(host).call) for host in ("h0", "h2"))
    a, b = near.create_qp(), far.create_qp()
    for qp in (a, b):
        qp.modify(QpState.INIT)
    for qp, other, peer in ((a, b, 2), (b, a, 0)):
        qp.modify(QpState.RTR, peer_host=peer, dest_qp_num=other.qp_num, rq_psn=other.sq_psn)
        qp.modify(QpState.RTS)
    source, target = near.reg_mr(10_000), far.reg_mr(10_000, remote_write=True)
    source.write(b"sprayed over every plane. " * 384)
    a.post_write(1, source, target.address, target.rkey, imm_data=7)
    while not (done := far.poll_cq()):
        pass
    print(done[0].opcode.name, done[0].imm_data, done[0].byte_len, target.read(0, 25))
```

`mrclab capture LINK --decode` shows the packets by `testbed/lab/mrc.lua`, which Wireshark takes as well.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, _ev_states(), _packets(), _congestion(), _settings(), _VERBS])


def _ev_states() -> str:
    arrows = [f"    {old.value} --> {new.value}: {cause.value}" for (old, cause), new in TRANSITIONS.items()]
    usable = " and ".join(state.value for state in State if state in USABLE)
    return "\n".join([
        "## States of an EV", "",
        "```mermaid", "stateDiagram-v2", f"    [*] --> {State.GOOD.value}", *arrows, "```", "",
        f"{usable} carry traffic. A retired EV is replaced by one of the same plane, so that planes stay equally",
        "loaded.", "",
    ])  # fmt: skip


def _packets() -> str:
    opcodes = [(f"`{opcode:#04x}`", opcode.name) for opcode in Opcode if opcode >= Opcode.WRITE_FIRST]
    reasons = [(f"`{reason:#04x}`", reason.name) for reason in NackReason]
    classes = [
        (str(value), name) for name, value in vars(dscp).items() if name.isupper() and isinstance(value, int)
        and name not in ("NOT_ECT", "ECT1", "ECT0", "CE")
    ]  # fmt: skip
    return "\n".join([
        "## On the wire", "", *_table(["opcode", "packet"], opcodes), "", *_table(["reason", "NACK"], reasons), "",
        *_table(["DSCP", "class"], classes), "",
    ])  # fmt: skip


def _congestion() -> str:
    config = MrcConfig()
    profiles = [NsccProfile.derive(config, Fabric(planes, 4096)) for planes in (1, 4, 8)]
    rows = [
        (f"`{field.name}`", *(_number(getattr(one, field.name)) for one in profiles)) for field in fields(NsccProfile)
    ]
    return "\n".join([
        "## NSCC", "",
        f"`transport.congestion` in a lab file is one of {', '.join(f'`{name}`' for name in ALGORITHMS)}. "
        "The attributes of NSCC's profile, in bytes and",
        "ns of the real fabric at 100 Gb/s a plane:", "",
        *_table(["attribute", "1 plane", "4 planes", "8 planes"], rows), "",
    ])  # fmt: skip


def _settings() -> str:
    config = MrcConfig()
    rows = [
        (f"`{field.name}`", _number(value))
        for field in fields(MrcConfig)
        if not isinstance(value := getattr(config, field.name), dict)
    ]
    return "\n".join([
        "## Settings of a queue pair", "",
        "Times are the real fabric's; the lab multiplies them by its time dilation.", "",
        *_table(["setting", "default"], rows), "",
    ])  # fmt: skip


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    return [
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


if __name__ == "__main__":
    sys.stdout.write(page())
