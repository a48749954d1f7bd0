"""rtnetlink to many namespaces, fast: one raw socket in each, whole batches of requests, errors that name the object.

Messages are made in `messages`. Answers are matched by sequence number. The kernel's own words (extended ack) are part
of the error.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from testbed.fabric import netns
from testbed.fabric.addressing import namespace_name
from testbed.fabric.rtnl import NLMSGHDR
from testbed.topology.errors import MrclabError

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x100, 0x200, 0x400, 0x800

_SOL_NETLINK = 270
_NETLINK_CAP_ACK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK = 10, 11, 12
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLM_F_DUMP_INTR, _NLM_F_ACK_TLVS = 0x10, 0x200
_ERROR_MESSAGE_ATTRIBUTE = 1
_HEADER = NLMSGHDR

_BATCH = 128  # requests in one system call: should all of them fail, the answers fit the receive buffer
_RECEIVE_BYTES = 1 << 20
_TIMEOUT_S = 10
_DUMP_TRIES = 5
_MEMORY_TRIES, _MEMORY_PAUSE_S = 50, 0.01


class KernelError(MrclabError):
    """The kernel refused something; the message names the node, the object and the reason. `number` is its errno."""

    def __init__(self, what: str, number: int = 0) -> None:
        super().__init__(what)
        self.number = number


class Request(NamedTuple):
    """One encoded message, what it is about (for error messages), and which errno are no failure."""

    message: bytes
    about: str
    tolerated: frozenset[int] = frozenset()


def _messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(type, flags, sequence, whole message) of each message in a received buffer."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
        yield kind, flags, sequence, data[at : at + length]
        at += length + 3 & ~3


def _error(flags: int, message: bytes) -> tuple[int, str]:
    """(errno, the kernel's words or nothing) of an NLMSG_ERROR message."""
    code = -struct.unpack_from("=i", message, _HEADER.size)[0]
    at = _HEADER.size + 4 + _HEADER.size
    while flags & _NLM_F_ACK_TLVS and at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _ERROR_MESSAGE_ATTRIBUTE:
            return code, message[at + 4 : at + length].rstrip(b"\0").decode(errors="replace")
        at += max(length, 4) + 3 & ~3
    return code, ""


class RtSocket:
    """A NETLINK_ROUTE socket inside one namespace."""

    def __init__(self, namespace: str, node: str) -> None:
        self.node = node
        self._socket = netns.open_socket(namespace, socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.settimeout(_TIMEOUT_S)
        for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, requests: Sequence[Request]) -> None:
        """Send all and wait for all answers. KernelError tells the first that failed; later ones were tried too.

        What the kernel has no memory for is asked for again after a moment: each route into a tunnel takes per-CPU
        memory that must not wait for more, and of which the kernel keeps little at hand.
        """
        failures = self._send_all(requests)
        for _ in range(_MEMORY_TRIES):
            starved = [request for request, error in failures if error.number == errno.ENOMEM]
            if not starved:
                break
            time.sleep(_MEMORY_PAUSE_S)
            others = [failure for failure in failures if failure[1].number != errno.ENOMEM]
            failures = others + self._send_all(starved)
        if failures:
            more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
            error = failures[0][1]
            raise KernelError(error.what + more, error.number)

    def _send_all(self, requests: Sequence[Request]) -> list[tuple[Request, KernelError]]:
        failures: list[tuple[Request, KernelError]] = []
        for start in range(0, len(requests), _BATCH):
            failures += self._send_batch(requests[start : start + _BATCH])
        return failures

    def _send_batch(self, requests: Sequence[Request]) -> list[tuple[Request, KernelError]]:
        """The kernel takes them one after the other, and says by itself what failed: only the last is acknowledged."""
        stamped = [self._stamped(request, not_wanted=NLM_F_ACK) for request in requests[:-1]]
        stamped.append(self._stamped(requests[-1]))
        first, last = self._sequence - len(requests) + 1, self._sequence
        self._socket.send(b"".join(stamped))
        failures = []
        while True:
            for kind, flags, sequence, message in _messages(self._socket.recv(_RECEIVE_BYTES)):
                if kind != _NLMSG_ERROR or not first <= sequence <= last:
                    continue
                request = requests[sequence - first]
                code, words = _error(flags, message)
                if code and code not in request.tolerated:
                    failures.append((request, self._refusal(request, code, words)))
                if sequence == last:
                    return failures

    def _refusal(self, request: Request, code: int, words: str) -> KernelError:
        return KernelError(f"{self.node}: {request.about}: {words or os.strerror(code)}", code)

    def _stamped(self, request: Request, not_wanted: int = 0) -> bytes:
        self._sequence += 1
        message = request.message
        length, kind, flags, _, port = _HEADER.unpack_from(message)
        return _HEADER.pack(length, kind, flags & ~not_wanted, self._sequence, port) + message[_HEADER.size :]

    def ask(self, request: Request) -> bytes:
        """The one message that answers a request for one object. Raises KernelError when there is no such object."""
        self._socket.send(self._stamped(request))
        while True:
            for kind, flags, sequence, message in _messages(self._socket.recv(_RECEIVE_BYTES)):
                if sequence == self._sequence:
                    if kind == _NLMSG_ERROR:
                        raise self._refusal(request, *_error(flags, message))
                    return message

    def dump(self, request: Request) -> list[bytes]:
        """All messages that answer a dump request; asked again when the kernel says that it changed meanwhile."""
        for _ in range(_DUMP_TRIES):
            found, interrupted = self._dump_once(request)
            if not interrupted:
                break
        return found

    def _dump_once(self, request: Request) -> tuple[list[bytes], bool]:
        self._socket.send(self._stamped(request))
        found: list[bytes] = []
        interrupted = False
        while True:
            for kind, flags, sequence, message in _messages(self._socket.recv(_RECEIVE_BYTES)):
                if sequence != self._sequence:
                    continue
                interrupted |= bool(flags & _NLM_F_DUMP_INTR)
                if kind == _NLMSG_DONE:
                    return found, interrupted
                if kind == _NLMSG_ERROR:
                    code, words = _error(flags, message)
                    if code in request.tolerated:
                        return found, interrupted
                    raise self._refusal(request, code, words)
                found.append(message)


class Kernel:
    """rtnetlink sockets into the namespaces of one lab, each opened when first used. For one thread."""

    def __init__(self, lab: str) -> None:
        self.lab = lab
        self._sockets: dict[str, RtSocket] = {}

    def __getitem__(self, node: str) -> RtSocket:
        """The socket of a node. Raises KernelError when its namespace is gone."""
        found = self._sockets.get(node)
        if found is None:
            try:
                found = RtSocket(namespace_name(self.lab, node), node)
            except FileNotFoundError:
                raise KernelError(f"{node}: its namespace {namespace_name(self.lab, node)} does not exist") from None
            self._sockets[node] = found
        return found

    def close(self, nodes: Iterable[str] | None = None) -> None:
        """Close all sockets (or those of some nodes): an open one keeps a removed namespace alive."""
        for node in list(self._sockets if nodes is None else nodes):
            if (found := self._sockets.pop(node, None)) is not None:
                found.close()

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
