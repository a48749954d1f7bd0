"""A posted WRITE on its way: which PSNs carry it, and the bytes of each packet."""

from __future__ import annotations

from agents.transport import Write
from agents.wire import headers


class Message:
    """A WRITE cut into packets of `mtu` bytes; PSNs are unbounded integers."""

    __slots__ = ("first_psn", "last_psn", "msn", "mtu", "packets", "rqmsn", "size", "write")

    def __init__(self, write: Write, first_psn: int, mtu: int, msn: int, rqmsn: int) -> None:
        """`msn` counts messages, `rqmsn` those with an immediate; both 16 bits."""
        self.write = write
        self.mtu = mtu
        self.size = len(write.data)
        self.packets = max(1, -(-self.size // mtu))  # a WRITE of nothing is one packet
        self.first_psn = first_psn
        self.last_psn = first_psn + self.packets - 1
        self.msn = msn
        self.rqmsn = rqmsn

    def payload(self, psn: int) -> tuple[memoryview, int]:
        """(bytes, their offset in the message) that a packet carries."""
        offset = (psn - self.first_psn) * self.mtu
        return self.write.data[offset : offset + self.mtu], offset

    def opcode(self, psn: int) -> int:
        """The packet's MRC opcode, by its place in the message."""
        if self.first_psn < psn < self.last_psn:
            return headers.Opcode.WRITE_MIDDLE
        return headers.write_opcode(psn == self.first_psn, psn == self.last_psn, self.write.immediate is not None)
