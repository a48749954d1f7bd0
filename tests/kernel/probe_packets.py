"""Hand-made packets for tests of the fabric, sent and taken in a node's namespace, without any agent's code."""

from __future__ import annotations

import socket
import struct

from agents.wire import address
from testbed.fabric import netns, plan
from testbed.lab.running import RunningLab

ETH_P_ALL, ETH_P_IPV6 = 0x0003, 0x86DD
ROCE_PORT = 4791
UDP = 17
BUFFER_BYTES = 16 << 20
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33


def ipv6(src: bytes, dst: bytes, next_header: int, payload: bytes, dscp: int = 0) -> bytes:
    return struct.pack("!IHBB", 6 << 28 | dscp << 22, len(payload), next_header, 64) + src + dst + payload


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF or 0xFFFF


def frame(
    lab: RunningLab, src: int, dst: int, plane: int, t1: int, *, port: int, size: int = 64, dscp: int = 0, tag: int = 0
) -> bytes:
    """Ethernet | IPv6 to uSIDs | IPv6 | UDP with `size` payload bytes, which start with `tag`."""
    own, far = lab.clos.hosts[src], lab.clos.hosts[dst]
    ends = address.host_address(own.index), address.host_address(far.index)
    payload = struct.pack("!I", tag).ljust(size, b"\0")
    header = struct.pack("!HHHH", 50000, port, 8 + size, 0)
    checksum = _checksum(b"".join(ends) + struct.pack("!II", 8 + size, UDP) + header + payload)
    inner = ipv6(*ends, UDP, header[:6] + struct.pack("!H", checksum) + payload)
    usids = lab.clos.path_usids(src, dst, plane, t1)
    outer_dst = address.sid_address(address.DEFAULT_BLOCK, *usids)
    outer = ipv6(address.host_address(own.index), outer_dst, 41, inner, dscp)
    nic, link = lab.clos.ports(own.name)[plane]
    macs = (bytes.fromhex(mac.replace(":", "")) for mac in (lab.clos.peer(nic, link).mac, nic.mac))
    return b"".join(macs) + struct.pack("!H", ETH_P_IPV6) + outer


def packet_socket(lab: RunningLab, node: str, port: str, *, receive: bool) -> socket.socket:
    """An AF_PACKET socket on a port; for sending only it takes nothing in."""
    protocol = ETH_P_ALL if receive else 0
    made = netns.open_socket(
        plan.namespace_name(lab.name, node), socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol)
    )
    for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):  # the fabric's queues shall be the limit, not the test's
        made.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    with netns.inside(plan.namespace_name(lab.name, node)):
        made.bind((port, protocol))
    return made


def tag_of(packet: bytes) -> int:
    """The tag of a received frame."""
    return int(struct.unpack_from("!I", packet, 14 + 40 + 40 + 8)[0])
