"""The map of `port.bpf.c`, seen from here: settings and counters of a lab's ports in memory shared with the kernel.

Reading and writing cost no system call. Settings are stored field by field, each whole; the program sees a change with
the next packet. The layout below is that of `struct port`; opening the map compares the sizes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

from testbed.fabric import bpf
from testbed.topology.errors import MrclabError
from testbed.topology.port_settings import PROBABILITY_DIGITS, PortSettings

_MARK, _TRIM, _LAST_HOP, _BLACK_HOLE, _BLACK_HOLE_DATA, _WATCH_EVS, _VIRTUAL_QUEUE, _CORRUPT_UNSEEN = (
    1 << bit for bit in range(8)
)
_FLAG_OF = {
    "ecn": _MARK,
    "trimming": _TRIM,
    "last_hop": _LAST_HOP,
    "watch_evs": _WATCH_EVS,
    "virtual_queue": _VIRTUAL_QUEUE,
    "corrupt_unseen": _CORRUPT_UNSEEN,
}
_BLACK_HOLES: dict[str, int] = {"none": 0, "all": _BLACK_HOLE, "data": _BLACK_HOLE_DATA}
_MATCH_KINDS: dict[str, int] = {"none": 0, "usid": 1, "ev": 2}
_CERTAIN = 1 << 32

_U16, _U32, _U64 = ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64


class _Settings(ctypes.Structure):
    _fields_ = [
        ("flags", _U32),
        ("limit_bytes", _U32),
        ("control_extra_bytes", _U32),
        ("trim_at_bytes", _U32),
        ("kmin_bytes", _U32),
        ("kmax_bytes", _U32),
        ("pmax", _U64),
        ("rate_bytes_per_s", _U64),
        ("burst_ns", _U64),
        ("_unused", _U64 * 2),
        ("loss", _U64),
        ("match_loss", _U64),
        ("match_kind", _U32),
        ("match_value", _U32),
        ("corrupt", _U64),
        ("_rest", _U64 * 4),
    ]


class _Counters(ctypes.Structure):
    _fields_ = [
        ("packets", _U64),
        ("bytes", _U64),
        ("control_packets", _U64),
        ("marked", _U64),
        ("trimmed", _U64),
        ("dropped_queue", _U64),
        ("dropped_control", _U64),
        ("dropped_loss", _U64),
        ("dropped_black_hole", _U64),
        ("first_drop_ns", _U64),
        ("last_drop_ns", _U64),
        ("last_tx_ns", _U64),
        ("busy_until_ns", _U64),
        ("queue_max_bytes", _U32 * 2),
        ("depth_bytes", _U32),
        ("marked_depth_bytes", _U32),
        ("trimmed_depth_bytes", _U32),
        ("dropped_depth_bytes", _U32),
        ("corrupted", _U64),
        ("lost_data", _U64),
        ("first_lost_data_ns", _U64),
        ("last_lost_data_ns", _U64),
        ("last_use_ns", _U64),
        ("_rest", _U64 * 3),
    ]


class _Port(ctypes.Structure):
    _fields_ = [("settings", _Settings), ("counters", _Counters)]


class _EvKey(ctypes.Structure):
    _fields_ = [("ifindex", _U32), ("ev", _U32), ("src", _U16), ("dst", _U16)]


class _EvSeen(ctypes.Structure):
    _fields_ = [("packets", _U64), ("last_ns", _U64), ("first_lost_ns", _U64), ("last_lost_ns", _U64)]


class Reader(IntEnum):
    """Who reads the queue's maximum: each has one of its own, since reading begins a new one."""

    SAMPLES = 0
    STATUS = 1


@dataclass(frozen=True, slots=True)
class PortCounters:
    """What a port has done since the lab is up. Times are CLOCK_MONOTONIC, 0 = never; depths as packets found them.

    `packets` and `bytes` are what went into the queue, trimmed ones as they are then; those of `control_packets` are
    among them. A packet that was trimmed and then dropped is in `trimmed` and in `dropped_control`. The depths are what
    the last packet found, and the last one that was marked, trimmed or dropped. `busy_until_ns` is when the virtual
    queue would be empty; it is kept up also where HTB's own decides. `lost_data` is the data that faults took since
    somebody wanted to know (`forget_first_drop`).
    `last_use_ns` is when anything but a probe of a path last came to the port, be it sent or dropped.
    """

    packets: int
    bytes: int
    control_packets: int
    marked: int
    trimmed: int
    dropped_queue: int
    dropped_control: int
    dropped_loss: int
    dropped_black_hole: int
    first_drop_ns: int
    last_drop_ns: int
    last_tx_ns: int
    busy_until_ns: int
    depth_bytes: int
    marked_depth_bytes: int
    trimmed_depth_bytes: int
    dropped_depth_bytes: int
    corrupted: int
    lost_data: int
    first_lost_data_ns: int
    last_lost_data_ns: int
    last_use_ns: int

    @property
    def dropped(self) -> int:
        """Packets dropped for whatever cause."""
        return self.dropped_queue + self.dropped_control + self.dropped_loss + self.dropped_black_hole


_COUNTERS = tuple(item.name for item in fields(PortCounters))


@dataclass(frozen=True, slots=True)
class EvUse:
    """When packets of `ev` from host number `src` to `dst` last came to a port that watches, and how many came."""

    ifindex: int
    ev: int
    src: int
    dst: int
    packets: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class EvLoss:
    """When faults of a port took packets of `ev` from host number `src` to `dst`, but for probes: first and last.

    The first is that since the port's own first drop, if it is not before that.
    """

    ifindex: int
    ev: int
    src: int
    dst: int
    first_ns: int
    last_ns: int


class PortMap:
    """The ports of one lab by ifindex. Close it: an open one keeps the map after the lab has gone."""

    def __init__(self, map_fd: int) -> None:
        """`map_fd` is not needed afterwards. Raises MrclabError when the map is not laid out as here."""
        info = bpf.fd_info(map_fd)
        if info.get("value_size") != ctypes.sizeof(_Port):
            raise MrclabError(f"the port map has {info.get('value_size')} bytes a port, not {ctypes.sizeof(_Port)}")
        entries = info["max_entries"]
        page = mmap.PAGESIZE
        length = -(-entries * ctypes.sizeof(_Port) // page) * page
        self._memory = mmap.mmap(map_fd, length, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self._ports: Any = (_Port * entries).from_buffer(self._memory)

    @classmethod
    def of_id(cls, map_id: int) -> PortMap:
        """The map that the kernel numbers so. Raises OSError when it is gone."""
        fd = bpf.open_map(map_id)
        try:
            return cls(fd)
        finally:
            os.close(fd)

    def settings(self, ifindex: int, device: str = "") -> PortSettings:
        """The settings of a port as it has them now, under the name `device`."""
        now = self._ports[ifindex].settings
        flags = now.flags
        return PortSettings(
            device=device,
            limit_bytes=now.limit_bytes,
            control_extra_bytes=now.control_extra_bytes,
            rate_bps=8 * now.rate_bytes_per_s,
            burst_ns=now.burst_ns,
            trim_at_bytes=now.trim_at_bytes,
            kmin_bytes=now.kmin_bytes,
            kmax_bytes=now.kmax_bytes,
            pmax=_as_fraction(now.pmax),
            loss=_as_fraction(now.loss),
            match_kind=_name_of(_MATCH_KINDS, now.match_kind),  # type: ignore[arg-type]
            match_value=now.match_value,
            match_loss=_as_fraction(now.match_loss),
            corrupt=_as_fraction(now.corrupt),
            black_hole=_name_of(_BLACK_HOLES, flags & (_BLACK_HOLE | _BLACK_HOLE_DATA)),  # type: ignore[arg-type]
            **{name: bool(flags & bit) for name, bit in _FLAG_OF.items()},
        )

    def set(self, ifindex: int, wanted: PortSettings) -> None:
        """Give a port all these settings, also while packets come."""
        port = self._ports[ifindex].settings
        for name in ("limit_bytes", "control_extra_bytes", "burst_ns", "trim_at_bytes", "kmin_bytes", "kmax_bytes"):
            setattr(port, name, getattr(wanted, name))
        port.rate_bytes_per_s = wanted.rate_bps // 8
        port.pmax = _as_threshold(wanted.pmax)
        port.loss = _as_threshold(wanted.loss)
        port.corrupt = _as_threshold(wanted.corrupt)
        port.match_value = wanted.match_value
        port.match_kind = _MATCH_KINDS[wanted.match_kind]
        port.match_loss = _as_threshold(wanted.match_loss)
        flags = sum(bit for name, bit in _FLAG_OF.items() if getattr(wanted, name))
        port.flags = flags | _BLACK_HOLES[wanted.black_hole]

    def change(self, ifindex: int, **settings: Any) -> PortSettings:
        """Change some settings of a port, by name; returns what they all were before, to be set again."""
        before = self.settings(ifindex)
        self.set(ifindex, replace(before, **settings))
        return before

    def counters(self, ifindex: int) -> PortCounters:
        """The counters of a port."""
        counters = self._ports[ifindex].counters
        return PortCounters(*(getattr(counters, name) for name in _COUNTERS))

    def bytes_sent(self, ifindex: int) -> int:
        """The counter `bytes` alone: for a reader that takes those of all ports many times a second."""
        return int(self._ports[ifindex].counters.bytes)

    def queue_max(self, ifindex: int, reader: Reader) -> int:
        """The longest queue (bytes, the last packet included) since this reader asked last."""
        maxima = self._ports[ifindex].counters.queue_max_bytes
        longest = int(maxima[reader])
        maxima[reader] = 0
        return longest

    def forget_first_drop(self, ifindex: int) -> None:
        """The next drop is the first one again, and so is the next data that a fault takes: it is counted from 1."""
        counters = self._ports[ifindex].counters
        counters.first_drop_ns = counters.first_lost_data_ns = counters.lost_data = 0

    def close(self) -> None:
        """Let go of the memory."""
        self._ports = None
        self._memory.close()

    def __enter__(self) -> PortMap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ev_uses(map_id: int) -> Iterator[EvUse]:
    """What the ports that watch EVs have seen. Raises OSError when the map is gone."""
    for key, seen in _entries(map_id):
        if seen.packets:
            yield EvUse(*_names(key), seen.packets, seen.last_ns)


def ev_losses(map_id: int) -> Iterator[EvLoss]:
    """What faults took at the ports, by EV and hosts. Raises OSError when the map is gone."""
    for key, seen in _entries(map_id):
        if seen.first_lost_ns:
            yield EvLoss(*_names(key), seen.first_lost_ns, seen.last_lost_ns)


def _names(key: Any) -> tuple[int, int, int, int]:
    return key.ifindex, key.ev, key.src - 1, key.dst - 1  # host numbers count from 0, addresses that ports see from 1


def _entries(map_id: int) -> Iterator[tuple[Any, Any]]:
    library, fd = bpf.libbpf(), bpf.open_map(map_id)
    try:
        key, seen = _EvKey(), _EvSeen()
        before: Any = None
        while library.bpf_map_get_next_key(fd, before, ctypes.byref(key)) == 0:
            if library.bpf_map_lookup_elem(fd, ctypes.byref(key), ctypes.byref(seen)) == 0:
                yield key, seen
            before = ctypes.byref(_EvKey.from_buffer_copy(key))
    finally:
        os.close(fd)


def _as_threshold(probability: float) -> int:
    return round(probability * _CERTAIN)


def _as_fraction(threshold: int) -> float:
    return round(threshold / _CERTAIN, PROBABILITY_DIGITS)


def _name_of(names: dict[str, int], value: int) -> str:
    return next(name for name, number in names.items() if number == value)
