"""Names and addresses of a lab as the kernel has them: of namespaces, next hops, uSIDs and hosts. All computed."""

from __future__ import annotations

import socket

from agents.wire import address
from testbed.topology.clos import Port

BLOCK_BITS = 32
USID_PREFIX_BITS = address.USID_BITS + BLOCK_BITS
HOSTS_PREFIX_BITS = 8 * len(address.HOST_PREFIX)


def text(packed: bytes) -> str:
    """A 16-byte address as the kernel and people write it."""
    return socket.inet_ntop(socket.AF_INET6, packed)


def namespace_name(lab: str, node: str) -> str:
    """`<lab>.<node>`."""
    return f"{lab}.{node}"


def link_local(port: Port) -> str:
    """The address by which the far end of a link names `port` as its next hop; assigned only where BGP needs it."""
    return text(bytes.fromhex("fe80") + port.ifindex.to_bytes(14, "big"))


def usid_prefix(usid: int) -> str:
    """The /48 that one uSID owns."""
    return f"{text(address.sid_address(address.DEFAULT_BLOCK, usid))}/{USID_PREFIX_BITS}"


def host(index: int) -> str:
    """The /128 of a host's NIC."""
    return f"{text(address.host_address(index))}/128"


HOSTS = f"{text(address.HOST_PREFIX.ljust(16, bytes(1)))}/{HOSTS_PREFIX_BITS}"  # what all hosts' addresses are in


def is_of_hosts(prefix: str) -> bool:
    """Is it the prefix of one host, or of all?"""
    value, _, length = prefix.partition("/")
    packed = socket.inet_pton(socket.AF_INET6, value)
    return packed.startswith(address.HOST_PREFIX) and int(length) >= HOSTS_PREFIX_BITS
