"""Watches the carrier of the NIC's ports by asking, because the kernel's own notice comes up to a second late.

Linkwatch holds a link's down event back while another one is less than a second old, so that netlink would show the
tenth flap in five seconds when it is over. ETHTOOL_GLINK says what is true now, for about 1.5 us a port.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Sequence

_SIOCETHTOOL = 0x8946
_ETHTOOL_GLINK = 0x0A
_IFREQ = struct.Struct("@16sP16x")  # name, pointer to the command, rest of the union


class _Command(ctypes.Structure):
    _fields_ = [("command", ctypes.c_uint32), ("data", ctypes.c_uint32)]


class CarrierMonitor:
    """Knows which of the ports have carrier; an interface that is down at our own end, or gone, has none."""

    def __init__(self, ifnames: Sequence[str]) -> None:
        self._socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)  # of the namespace we are in now
        self._fd = self._socket.fileno()
        self._command = _Command(_ETHTOOL_GLINK, 0)
        pointer = ctypes.addressof(self._command)
        self._requests = [_IFREQ.pack(name.encode(), pointer) for name in ifnames]
        self.up = [self._ask(request) for request in self._requests]

    def _ask(self, request: bytes) -> bool:
        try:
            fcntl.ioctl(self._fd, _SIOCETHTOOL, request)
        except OSError:
            return False
        return bool(self._command.data)

    def edges(self, heard: Sequence[bool] = ()) -> list[tuple[int, bool]]:
        """(port, has carrier) for each port whose carrier is not what it was at the last call.

        `heard`, by port: it has just been heard of, so that one that was up need not be asked.
        """
        changed: list[tuple[int, bool]] = []
        for port, request in enumerate(self._requests):
            if self.up[port] and heard and heard[port]:
                continue
            up = self._ask(request)
            if up != self.up[port]:
                self.up[port] = up
                changed.append((port, up))
        return changed

    def close(self) -> None:
        """Close the socket that asks."""
        self._socket.close()
