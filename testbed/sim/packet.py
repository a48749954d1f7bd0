"""A packet under way in virtual time, and what switches do to its bytes: trim, mark, shift uSIDs, count hops.

Nothing is changed while it goes from port to port but a place in its path and a mark: all changes to the headers are
made when it arrives, at once, and look as if each switch had made its own. Only trimming cuts at once, since a shorter
packet takes less of the line.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from agents.wire import address, dscp, ev, headers
from agents.wire.packet import NEXT_HEADER_UDP
from testbed.topology.sizes import ETHERNET_HEADER_BYTES

_DESTINATION = slice(24, 40)
_HOP_LIMIT_AT = 7
_WORD = struct.Struct("!I")
_LENGTH = struct.Struct("!H")
# IPv6, UDP, BTH: first word, source port, opcode, and the word of PSN and flags
_LOOK = struct.Struct("!I36xHxxxxxxB7xI")
_NEXT_HEADER_AT, _LENGTH_AT, _UDP_LENGTH_AT = 6, 4, 44
_BODY_AT = 60
_IPV6_BYTES = 40
_DSCP_SHIFT, _ECN_SHIFT = 22, 20
_DSCP_MASK, _ECN_MASK = 0x3F << _DSCP_SHIFT, 3 << _ECN_SHIFT
_CONTROL_CLASSES = frozenset({dscp.CONTROL, dscp.TRIMMED, dscp.TRIMMED_LASTHOP})
_TRIMMABLE_CLASSES = frozenset({dscp.TRIMMABLE, dscp.TRIMMABLE_RETX})

# The generator polynomial of CRC-32 as a line sends it, the least bit of a byte first: a packet that these bits are
# flipped in has the right ICRC again.
_UNSEEN = bytes.fromhex("41 06 71 DB 01")
_BEHIND_PAYLOAD_BYTES = 4 + 3  # ICRC, and what there may be of padding
_LONGEST_HEADER_BYTES = max(layout.size for layout in headers.WRITE_HEADERS.values())

_PROBE_OPCODES = frozenset({headers.Opcode.ENDPOINT_REQUEST, headers.Opcode.ENDPOINT_RESPONSE})
_WRITE_OPCODES = headers.WRITE_OPCODES | headers.RC_WRITE_OPCODES


@dataclass(frozen=True, slots=True)
class Path:
    """A way through the fabric: the ports that it leaves by (of `link.Link`), and the uSIDs in front of each of them.

    `arrival` is the first destination address as the far host sees it, `port` the NIC port there.
    """

    hops: tuple[Any, ...]
    usids: tuple[int, ...]
    arrival: bytes
    host: str
    port: int


class SimPacket:
    """`data`: from its first IPv6 header on. `at`: how many of its path's hops it has made.

    `writes`: it is a WRITE; `probes`: it probes a path.
    """

    __slots__ = (
        *("at", "control", "data", "dscp", "ect", "ev", "ingress"),
        *("life", "marked", "path", "probes", "size", "writes"),
    )

    def __init__(self, data: bytes, path: Path) -> None:
        word = _WORD.unpack_from(data)[0]
        inner_word, source_port, opcode, _ = _LOOK.unpack_from(data, _inner_at(data))
        self.data = data
        self.path = path
        self.at = 0
        self.life = 0  # of the link that it is on
        self.ingress: Any = None  # the link that it came in on, where that counts (`lossless`)
        self.size = len(data) + ETHERNET_HEADER_BYTES
        self.dscp = word >> _DSCP_SHIFT & 0x3F
        self.control = self.dscp in _CONTROL_CLASSES
        self.ect = bool(word & _ECN_MASK)
        self.ev = ev.from_headers(inner_word & 0xFFFFF, source_port)
        self.marked = False
        self.writes = opcode in _WRITE_OPCODES
        self.probes = opcode in _PROBE_OPCODES

    @property
    def hosts_and_ev(self) -> tuple[int, int, int]:
        """The numbers of the hosts that it goes from and to (-1: that is no host), and its EV."""
        inner_at = _inner_at(self.data)
        numbers = (address.host_number(bytes(self.data[inner_at + at : inner_at + at + 16])) for at in (8, 24))
        src, dst = (-1 if number is None else number for number in numbers)
        return src, dst, self.ev

    def usids(self) -> tuple[int, ...]:
        """Those that are still in its address when it goes by its next hop."""
        return self.path.usids[self.at :]

    def twin(self) -> SimPacket:
        """The same packet again, at the same place."""
        twin = SimPacket(self.data, self.path)
        twin.at, twin.life, twin.marked = self.at, self.life, self.marked
        return twin

    def trim(self, last_hop: bool) -> bool:
        """Cut payload, padding and ICRC off; False when this packet may not be trimmed, or has nothing to lose."""
        inner_at = _inner_at(self.data)
        _, _, opcode, psn_word = _LOOK.unpack_from(self.data, inner_at)
        if self.dscp not in _TRIMMABLE_CLASSES or opcode not in headers.WRITE_OPCODES:
            return False
        layout = headers.WRITE_HEADERS[bool(psn_word & headers.BTH_TIMESTAMP), opcode in headers.IMMEDIATE_OPCODES]
        length = inner_at + _BODY_AT + layout.size
        if length >= len(self.data):
            return False
        data = bytearray(self.data[:length])
        self.dscp = dscp.TRIMMED_LASTHOP if last_hop else dscp.TRIMMED
        for at in {0, inner_at}:
            word = _WORD.unpack_from(data, at)[0]
            _WORD.pack_into(data, at, word & ~_DSCP_MASK | self.dscp << _DSCP_SHIFT)
            _LENGTH.pack_into(data, at + _LENGTH_AT, length - at - _IPV6_BYTES)
        _LENGTH.pack_into(data, inner_at + _UDP_LENGTH_AT, length - inner_at - _IPV6_BYTES)
        self.data = bytes(data)
        self.size = length + ETHERNET_HEADER_BYTES
        self.control = True
        return True

    def corrupt(self, unseen: bool) -> bool:
        """Spoil the end of the payload: a bit, which the ICRC tells, or `unseen` by it; False: there is no payload."""
        at = len(self.data) - _BEHIND_PAYLOAD_BYTES - len(_UNSEEN)
        if not self.writes or self.control or at < _inner_at(self.data) + _BODY_AT + _LONGEST_HEADER_BYTES:
            return False
        data = bytearray(self.data)
        for offset, bits in enumerate(_UNSEEN if unseen else b"\x01"):
            data[at + offset] ^= bits
        self.data = bytes(data)
        return True

    def as_received(self) -> bytes:
        """The bytes at the far host: uSIDs used up are shifted out, hop limit and ECN are what the switches made."""
        data = self.data
        hop_limit = data[_HOP_LIMIT_AT] - len(self.path.hops) + 1
        first = data[:_HOP_LIMIT_AT]
        if self.marked:
            word = _WORD.unpack_from(data)[0] | dscp.CE << _ECN_SHIFT
            first = _WORD.pack(word) + data[4:_HOP_LIMIT_AT]
        return b"".join((first, bytes((hop_limit,)), data[8:24], self.path.arrival, data[40:]))


def _inner_at(data: bytes) -> int:
    """Where the header with the hosts' own addresses begins: behind the outer one, if there is one."""
    return 0 if data[_NEXT_HEADER_AT] == NEXT_HEADER_UDP else _IPV6_BYTES


def destination_usids(data: bytes) -> tuple[int, ...]:
    """The uSIDs in the outer destination address."""
    return address.address_usids(first_destination(data))


def first_destination(data: bytes) -> bytes:
    """The destination address of the first IPv6 header."""
    return data[_DESTINATION]


def path_key(host: int, port: int, data: bytes) -> tuple[int, int, bytes, int, int]:
    """Packets with the same key go the same way, or are wrong in the same way."""
    inner_word, source_port, _, _ = _LOOK.unpack_from(data, _inner_at(data))
    return host, port, data[_DESTINATION], inner_word & 0xFFFFF, source_port
