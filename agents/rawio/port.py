"""One NIC port on the wire: a receive socket, and a send socket for each traffic class.

Receiving: AF_PACKET for all protocols, so that the tap sees a packet before clsact ingress drops it (the kernel's
stack must not answer the agents' packets). Sending: the socket's priority is the HTB class of the host's port, and a
small send buffer makes the kernel refuse what the port cannot take soon: back-pressure, by which a path is chosen late.
As in a NIC, what waits behind the choice is two packets, or on fast lines what leaves within 200 us, and one batch.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from agents.rawio import capture_filter
from agents.rawio.batch import Buffer, Inbox, Outbox
from agents.transport import Datagram
from agents.wire.packet import DEFAULT_UDP_PORT

_ETH_P_ALL = 0x0003
_ETH_P_IPV6 = 0x86DD
_SOL_PACKET = 263  # linux/socket.h
_PACKET_STATISTICS = 6  # linux/if_packet.h
_PACKET_IGNORE_OUTGOING = 23
_SO_RCVBUFFORCE = 33

# HTB classes of a host's port (testbed.fabric makes them): major 1, minor 0x1 control, 0x10 data.
CONTROL_CLASS = 0x1_0001
DATA_CLASS = 0x1_0010

# What may wait behind the choice of a path (tests of whole labs hold it by the queue's maximum in the port map).
_LEAST_WAITING = 2
_WAITING_NS = 200_000
_PACKET_BYTES = 4300  # a data packet of 4 KB with its headers
_PACKET_MEMORY_BYTES = 8700  # what the kernel counts for one: 8448 (Linux 6.1) to 9024 (6.18)

# How many packets go to the kernel in one system call, before it is known whether it takes them: as many as leave
# within a millisecond, which on slow lines is one.
_MOST_TOGETHER = 16
_TOGETHER_NS = 1_000_000
_LARGEST_PACKET_BYTES = 9 << 10


@dataclass(frozen=True, slots=True)
class PortSpec:
    """What a port is made from: its interface in the current namespace, its MAC address and that of the T0's port.

    `rate_bps` is the line's; 0 is any slow one, on which two packets take longer than 200 us.
    """

    ifname: str
    mac: str
    gateway_mac: str
    rate_bps: int = 0


@dataclass(frozen=True, slots=True)
class BufferSizes:
    """Socket buffers as asked for; the kernel doubles each number, and counts its own overhead in it."""

    receive_bytes: int = 4 << 20  # 300 packets of 4 KB or more: the agent may be away for 200 ms at 20 Mb/s
    data_bytes: int | None = None  # as the line's rate has it: see `_data_buffer_bytes`
    control_bytes: int = 200_000


class Sent(Enum):
    """What became of a packet that was handed to `Port.send`."""

    YES = "yes"
    FULL = "full"  # not taken: keep it until the socket is writable
    QUEUE_FULL = "queue-full"  # not taken by the queue behind the socket: keep it and try again soon
    LOST = "lost"  # the port is down or gone: as if lost on the wire


SENT: Final = Sent.YES  # asked for with every packet: a name of the module is found quicker than a member


@dataclass(slots=True)
class PortCounters:
    """What a port has seen since it was opened."""

    packets_received: int = 0
    packets_sent: int = 0
    bytes_sent: int = 0
    control_refused: int = 0  # control packets dropped here because the control socket was full
    send_errors: Counter[str] = field(default_factory=Counter)  # by the error's name: packets lost at our own end
    socket_drops: int = 0  # received by the kernel, but the socket's buffer was full: the machine's fault


class Port:
    """The sockets of one NIC port, all non-blocking. Raises OSError when the interface is not there."""

    def __init__(self, spec: PortSpec, *, udp_port: int = DEFAULT_UDP_PORT, buffers: BufferSizes | None = None) -> None:
        buffers = buffers or BufferSizes()
        self.spec = spec
        self.counters = PortCounters()
        self._header = mac_bytes(spec.gateway_mac) + mac_bytes(spec.mac) + struct.pack("!H", _ETH_P_IPV6)
        self.receiver = _receiver(spec.ifname, udp_port, buffers.receive_bytes)
        data_bytes = _data_buffer_bytes(spec.rate_bps) if buffers.data_bytes is None else buffers.data_bytes
        self.data_sender = _sender(spec.ifname, DATA_CLASS, data_bytes)
        self.control_sender = _sender(spec.ifname, CONTROL_CLASS, buffers.control_bytes)
        self._send_data, self._send_control = self.data_sender.sendmsg, self.control_sender.sendmsg
        most = min(_MOST_TOGETHER, spec.rate_bps * _TOGETHER_NS // (8_000_000_000 * _PACKET_BYTES))
        self._outbox = Outbox(self._header, most, _LARGEST_PACKET_BYTES) if most > 1 else None
        self._most_together = most
        self._together = 1  # as many as the port has taken together lately
        self._batch: list[Datagram] = []  # what is in the outbox

    def receive(self, inbox: Inbox, limit: int) -> list[memoryview]:
        """The packets that wait, up to `limit` and the size of the inbox, in it from their first IPv6 header on."""
        packets = inbox.fill(self.receiver.fileno(), limit)
        self.counters.packets_received += len(packets)
        return packets

    def send(self, buffers: Sequence[Buffer], control: bool) -> Sent:
        """Send one packet, given as buffers from the outer IPv6 header on, without copying them together."""
        counters = self.counters
        try:
            length = (self._send_control if control else self._send_data)((self._header, *buffers))
        except BlockingIOError:
            if not control:
                return Sent.FULL
            counters.control_refused += 1
            return Sent.LOST
        except OSError as error:
            if error.errno == errno.ENOBUFS and not control:
                return Sent.QUEUE_FULL
            counters.send_errors[errno.errorcode.get(error.errno or 0, "unknown")] += 1
            return Sent.LOST
        counters.packets_sent += 1
        counters.bytes_sent += length
        return SENT

    def put(self, datagram: Datagram) -> bool:
        """Add a packet of the data class to the batch; False when the port takes no batches, or not this packet."""
        if self._outbox is None or not self._outbox.put(datagram.buffers):
            return False
        self._batch.append(datagram)
        return True

    @property
    def batch_is_full(self) -> bool:
        """The batch is as large as it may be: time for `send_batch`."""
        return len(self._batch) >= self._together

    def send_batch(self) -> list[Datagram]:
        """Send the batch; the packets that were not taken, from the first refused one on. `send` says why."""
        outbox, batch = self._outbox, self._batch
        if outbox is None or not batch:
            return []
        taken, length = outbox.send(self.data_sender.fileno())
        self.counters.packets_sent += taken
        self.counters.bytes_sent += length
        left = batch[taken:]
        batch.clear()
        self._together = 1 if left else min(2 * self._together, self._most_together)
        return left

    def read_drops(self) -> int:
        """Packets that the full receive socket has dropped since the port was opened."""
        raw = self.receiver.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        _taken, dropped = struct.unpack("=II", raw)  # reading sets the kernel's numbers back to 0
        self.counters.socket_drops += dropped
        return self.counters.socket_drops

    def close(self) -> None:
        """Close all sockets."""
        for one in (self.receiver, self.data_sender, self.control_sender):
            one.close()


def mac_bytes(text: str) -> bytes:
    """`02:6d:00:00:00:64` -> 6 bytes. Raises ValueError."""
    mac = bytes.fromhex(text.replace(":", ""))
    if len(mac) != 6:
        raise ValueError(f"{text!r} is not a MAC address")
    return mac


def _data_buffer_bytes(rate_bps: int) -> int:
    """SO_SNDBUF by which so many packets wait and no more: the kernel takes one while less than that is in use."""
    packets = max(_LEAST_WAITING, rate_bps * _WAITING_NS // (8_000_000_000 * _PACKET_BYTES))
    return (2 * packets - 1) * _PACKET_MEMORY_BYTES // 4  # between packets - 1 and packets, when it is doubled


def _receiver(ifname: str, udp_port: int, buffer_bytes: int) -> socket.socket:
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)  # deaf until it is bound
    receiver.setblocking(False)
    receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer_bytes)
    receiver.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    capture_filter.attach(receiver, udp_port)
    receiver.bind((ifname, _ETH_P_ALL))
    return receiver


def _sender(ifname: str, priority: int, buffer_bytes: int) -> socket.socket:
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.setblocking(False)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    sender.bind((ifname, 0))  # protocol 0: it never receives
    return sender
