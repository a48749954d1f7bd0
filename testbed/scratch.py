"""What this kernel can do, tried for real in a network namespace without a name that vanishes with its process.

A child process leaves for a namespace of its own, makes there what a node of a lab consists of, one thing after the
other, and reports which ones the kernel refused. Nothing can be left behind. Without root the child tries to become
root of a user namespace; where that is not allowed nothing can be seen, and `NotSeen` says so.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from testbed.fabric import messages, plan
from testbed.fabric.netlink import Request

_CLONE_NEWNET, _CLONE_NEWUSER = 0x40000000, 0x10000000
_PACKET_ALL = 3  # ETH_P_ALL
_BPF_MAP_TYPE_ARRAY = 2
_RECEIVE_BYTES = 1 << 16
_ERRNO = struct.Struct("=16xi")  # after the header of an NLMSG_ERROR

_NEAR = plan.Interface("near", 100, "veth", "02:00:00:00:00:01", 4400, 101)
_FAR = plan.Interface("far", 101, "veth", "02:00:00:00:00:02", 4400, 100)


class NotSeen(Exception):
    """This process may not make a namespace, so that nothing can be tried; says why."""


def try_features() -> dict[str, str]:
    """Feature -> what the kernel said against it (empty: it works). Raises NotSeen.

    Features, in the order of `FEATURES`, each built on the ones before it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(reading)
            os.write(writing, json.dumps(_in_a_namespace()).encode())
        os._exit(0)  # never back into the caller's stack, whatever happened
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    found = json.loads(answer) if answer else "the process that tried it died"
    if isinstance(found, str):
        raise NotSeen(found)
    return {str(name): str(trouble) for name, trouble in found.items()}


def _in_a_namespace() -> dict[str, str] | str:
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _CLONE_NEWNET if os.geteuid() == 0 else _CLONE_NEWNET | _CLONE_NEWUSER
    if libc.unshare(flags) != 0:
        return f"a network namespace: {os.strerror(ctypes.get_errno()).lower()}"
    return {name: _trouble(attempt) for name, attempt in FEATURES.items()}


def _trouble(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _ask(*requests: Request) -> None:
    """Send requests to this namespace one by one. Raises OSError for the first that is refused."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        for request in requests:
            kernel.send(request.message)
            code = -_ERRNO.unpack_from(kernel.recv(_RECEIVE_BYTES))[0]
            if code:
                raise OSError(code, f"{request.about}: {os.strerror(code)}")


def _veth() -> None:
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    _ask(messages.veth_pair(_NEAR, here, _FAR, here), *(messages.set_up(i, True, "veth") for i in (100, 101)))


def _un() -> None:
    _ask(messages.sid(plan.Sid("fcbb:bb00:800::/48", "near", "End"), _NEAR.ifindex))


def _end_dt6() -> None:
    _ask(messages.sid(plan.Sid("fcbb:bb00:1800::/48", "near", "End.DT6", plan.LOCAL_TABLE), _NEAR.ifindex))


def _encapsulation() -> None:
    _ask(messages.route(plan.Route("fd6d:7263::1/128", "near", segment="fcbb:bb00:800::"), _NEAR.ifindex))


def _shaper() -> None:
    line = plan.HtbClass("near", plan.LINE_CLASS, plan.ROOT_HANDLE, 0, 10**7, 10**7, 10**6, 10**6, 9000)
    _ask(
        messages.qdisc(plan.Qdisc("near", "htb", plan.ROOT_HANDLE, 0xFFFFFFFF, default_class=0xFF), _NEAR.ifindex),
        messages.htb_class(line, _NEAR.ifindex),
        messages.qdisc(plan.Qdisc("near", "bfifo", plan.DATA_LEAF, plan.LINE_CLASS, limit_bytes=10**5), _NEAR.ifindex),
    )


def _clsact() -> None:
    _ask(messages.qdisc(plan.clsact("near"), _NEAR.ifindex))


def _packet_sockets() -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_PACKET_ALL)).close()


def _bpf() -> None:
    library = ctypes.CDLL("libbpf.so.1", use_errno=True)  # OSError when it is not there
    if library.bpf_map_create(_BPF_MAP_TYPE_ARRAY, None, 4, 4, 1, None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


FEATURES: dict[str, Callable[[], None]] = {
    "veth": _veth,
    "SRv6 uN": _un,
    "SRv6 End.DT6": _end_dt6,
    "SRv6 encapsulation": _encapsulation,
    "HTB": _shaper,
    "clsact": _clsact,
    "packet sockets": _packet_sockets,
    "eBPF": _bpf,
}
