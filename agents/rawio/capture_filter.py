"""The socket filter (classic BPF) that lets only the agents' packets through to a receive socket.

Taken: Ethernet type IPv6, outer next header IPv6 (41), inner next header UDP, UDP destination port of the agents.
The offsets count from the outer IPv6 header, as a SOCK_DGRAM packet socket sees a received packet.
"""

from __future__ import annotations

import ctypes
import socket
import struct

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h

# linux/filter.h: instruction = code u16, jump if true u8, jump if false u8, constant u32
_LOAD_BYTE, _LOAD_HALF, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x28, 0x15, 0x06
_ETHERNET_TYPE = 0xFFFFF000  # SKF_AD_OFF + SKF_AD_PROTOCOL
_OUTER_NEXT_HEADER = 6
_INNER_NEXT_HEADER = 40 + 6
_UDP_DESTINATION_PORT = 40 + 40 + 2
_WHOLE_PACKET = 0x40000

_ETH_P_IPV6 = 0x86DD


def _program(udp_port: int) -> list[tuple[int, int, int, int]]:
    tests = [
        (_LOAD_HALF, _ETHERNET_TYPE, _ETH_P_IPV6),
        (_LOAD_BYTE, _OUTER_NEXT_HEADER, socket.IPPROTO_IPV6),
        (_LOAD_BYTE, _INNER_NEXT_HEADER, socket.IPPROTO_UDP),
        (_LOAD_HALF, _UDP_DESTINATION_PORT, udp_port),
    ]
    program: list[tuple[int, int, int, int]] = []
    for number, (load, offset, wanted) in enumerate(tests):
        to_refusal = 2 * (len(tests) - number) - 1
        program += [(load, 0, 0, offset), (_JUMP_IF_EQUAL, 0, to_refusal, wanted)]
    return [*program, (_RETURN, 0, 0, _WHOLE_PACKET), (_RETURN, 0, 0, 0)]


def attach(receiver: socket.socket, udp_port: int) -> None:
    """Put the filter on a SOCK_DGRAM packet socket; do it before `bind`, so that nothing slips in."""
    program = _program(udp_port)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))
    receiver.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))
