"""`capture`: what goes over a link, in both directions, as pcapng; through a packet socket at one of its ports.

At the near port, so that what it sends is seen as it leaves its queue (trimmed, marked), and what comes as it arrives.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from testbed.fabric import netns
from testbed.fabric.plan import namespace_name
from testbed.lab.pcapng import Writer
from testbed.lab.running import RunningLab
from testbed.topology.clos import Link
from testbed.topology.errors import MissingError

DISSECTOR = Path(__file__).with_name("mrc.lua")
_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33  # asm-generic/socket.h
_TIMESPEC = struct.Struct("=qq")
_STATISTICS = struct.Struct("=II")
_MAX_FRAME_BYTES = 1 << 16
_RECEIVE_BUFFER_BYTES = 16 << 20
_LOOK_S = 0.1  # between looks at whether it is to end
_NS_PER_S = 1_000_000_000


def capture(
    lab: RunningLab,
    link: Link,
    file: BinaryIO,
    *,
    for_ns: int | None = None,
    count: int | None = None,
    ended: Callable[[], bool] = lambda: False,
) -> tuple[int, int]:
    """Write what goes over a link; (frames written, frames that the kernel had to drop).

    Until `for_ns` have passed, `count` frames are there, `ended` says so (asked ten times a second), or the port is
    gone with its lab. One that is only switched off, as by a fault, goes on when it is back.
    """
    port = link.a
    about = f"link {link.name} of lab {lab.name}, at {port.name} of {port.node}"
    writer = Writer(file, port.name, f"{port.node} {port.name}", about)
    deadline = None if for_ns is None else time.monotonic_ns() + for_ns
    written = 0
    with netns.open_socket(namespace_name(lab.name, port.node), socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
        tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        tap.bind((port.name, _ETH_P_ALL))
        tap.setblocking(False)
        while (count is None or written < count) and not ended():
            if deadline is not None and time.monotonic_ns() >= deadline:
                break
            if not select.select([tap], [], [], _LOOK_S)[0]:
                file.flush()
                if not tap.getsockname()[0]:
                    break  # the port is gone, and the lab with it
                continue
            written += _take(tap, writer, None if count is None else count - written)
        file.flush()
        _, dropped = _STATISTICS.unpack(tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
    return written, dropped


@contextlib.contextmanager
def decoding() -> Iterator[BinaryIO]:
    """A file for a capture of which tshark prints each frame, with MRC's dissector. Raises MissingError without it."""
    command = ["tshark", "-l", "-X", f"lua_script:{DISSECTOR}", "-r", "-"]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    except FileNotFoundError:
        raise MissingError("tshark", "decodes captures", "apt-get install tshark") from None
    assert process.stdin is not None
    with process:
        yield process.stdin  # type: ignore[misc]


def _take(tap: socket.socket, writer: Writer, limit: int | None) -> int:
    """Write the frames that wait; how many."""
    taken = 0
    while limit is None or taken < limit:
        try:
            frame, ancillary, _, sender = tap.recvmsg(_MAX_FRAME_BYTES, socket.CMSG_SPACE(_TIMESPEC.size))
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENETDOWN):
                raise
            break
        stamps = [data for _, kind, data in ancillary if kind == _SO_TIMESTAMPNS]
        seconds, ns = _TIMESPEC.unpack(stamps[0]) if stamps else divmod(time.time_ns(), _NS_PER_S)
        writer.packet(seconds * _NS_PER_S + ns, frame, outbound=sender[2] == _PACKET_OUTGOING)
        taken += 1
    return taken
