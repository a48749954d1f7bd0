"""The socket filter (classic BPF) that lets only the agents' packets through to a receive socket.

Taken: Ethernet type IPv6, next header UDP, UDP destination port of the agents; or IPv6 (41) as next header, and then
the same in the inner one. The offsets count from the first IPv6 header, as a SOCK_DGRAM packet socket sees a received
packet.
"""

from __future__ import annotations

import ctypes
import socket
import struct

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h

# linux/filter.h: instruction = code u16, jump if true u8, jump if false u8, constant u32
_LOAD_BYTE, _LOAD_HALF, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x28, 0x15, 0x06
_ETHERNET_TYPE = 0xFFFFF000  # SKF_AD_OFF + SKF_AD_PROTOCOL
_IPV6_BYTES = 40
_NEXT_HEADER = 6
_UDP_DESTINATION_PORT = _IPV6_BYTES + 2
_WHOLE_PACKET = 0x40000

_ETH_P_IPV6 = 0x86DD


# (what to load, how, from where; what it has to be; where to go on if it is, and if it is not), by the names of the
# lines. The program ends with the two verdicts.
_LINES: dict[str, tuple[int, int, int | None, str, str]] = {
    "start": (_LOAD_HALF, _ETHERNET_TYPE, _ETH_P_IPV6, "outer", "refuse"),
    "outer": (_LOAD_BYTE, _NEXT_HEADER, socket.IPPROTO_IPV6, "inner", "bare"),
    "bare": (_LOAD_BYTE, _NEXT_HEADER, socket.IPPROTO_UDP, "bare port", "refuse"),
    "bare port": (_LOAD_HALF, _UDP_DESTINATION_PORT, None, "take", "refuse"),
    "inner": (_LOAD_BYTE, _IPV6_BYTES + _NEXT_HEADER, socket.IPPROTO_UDP, "inner port", "refuse"),
    "inner port": (_LOAD_HALF, _IPV6_BYTES + _UDP_DESTINATION_PORT, None, "take", "refuse"),
}


def _program(udp_port: int) -> list[tuple[int, int, int, int]]:
    places = {name: 2 * number for number, name in enumerate(_LINES)}
    places |= {"take": 2 * len(_LINES), "refuse": 2 * len(_LINES) + 1}
    program: list[tuple[int, int, int, int]] = []
    for name, (load, offset, wanted, then, otherwise) in _LINES.items():
        following = places[name] + 2  # jumps count from there
        to_then, to_otherwise = places[then] - following, places[otherwise] - following
        program.append((load, 0, 0, offset))
        program.append((_JUMP_IF_EQUAL, to_then, to_otherwise, udp_port if wanted is None else wanted))
    return [*program, (_RETURN, 0, 0, _WHOLE_PACKET), (_RETURN, 0, 0, 0)]


def attach(receiver: socket.socket, udp_port: int) -> None:
    """Put the filter on a SOCK_DGRAM packet socket; do it before `bind`, so that nothing slips in."""
    program = _program(udp_port)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))
    receiver.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))
