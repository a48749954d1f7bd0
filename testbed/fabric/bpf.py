"""Compiling and loading the eBPF programs of the fabric, through the system's clang and libbpf.

A source is compiled when it has changed (the object is kept under the machine's cache directory, named by content) and
loaded once for a lab. Its programs are attached by file descriptor to every port; the ports keep them, and these keep
the maps. Nothing is pinned: what was loaded is found again by the ids that the lab's state file has.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from testbed.topology.errors import MissingError

CACHE_DIR = Path("/var/cache/mrclab")

# v3: compare-and-swap. Debian and Ubuntu keep asm/types.h in the architecture's own folder, which the bpf target does
# not search.
_FLAGS = ("-O2", "-g", "-Wall", "-target", "bpf", "-mcpu=v3", f"-I/usr/include/{platform.machine()}-linux-gnu")


def compile_program(source: Path, cache: Path = CACHE_DIR) -> Path:
    """The object file of `source`, compiled unless the cache has it. Raises MissingError with what mends it."""
    digest = hashlib.sha256(" ".join(_FLAGS).encode() + source.read_bytes()).hexdigest()[:16]
    target = cache / f"{source.name.removesuffix('.bpf.c')}-{digest}.o"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    try:
        run = subprocess.run(
            ["clang", *_FLAGS, "-c", str(source), "-o", str(partial)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise MissingError("clang", "compiles the eBPF programs of the ports", "apt-get install clang") from None
    if run.returncode != 0:
        first = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr.strip())
        raise MissingError(
            f"headers for {source.name} ({first})",
            "compiles the eBPF programs",
            "apt-get install libbpf-dev linux-libc-dev",
        )
    os.replace(partial, target)
    return target


_POINTER, _TEXT, _NUMBER, _FLAG = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_bool

# libbpf's functions as they are used here: (result, arguments)
_FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "bpf_object__open_file": (_POINTER, (_TEXT, _POINTER)),
    "bpf_object__load": (ctypes.c_int, (_POINTER,)),
    "bpf_object__close": (None, (_POINTER,)),
    "bpf_object__next_program": (_POINTER, (_POINTER, _POINTER)),
    "bpf_object__find_program_by_name": (_POINTER, (_POINTER, _TEXT)),
    "bpf_object__find_map_by_name": (_POINTER, (_POINTER, _TEXT)),
    "bpf_program__name": (_TEXT, (_POINTER,)),
    "bpf_program__set_autoload": (ctypes.c_int, (_POINTER, _FLAG)),
    "bpf_program__fd": (ctypes.c_int, (_POINTER,)),
    "bpf_map__set_max_entries": (ctypes.c_int, (_POINTER, _NUMBER)),
    "bpf_map__fd": (ctypes.c_int, (_POINTER,)),
    "bpf_prog_get_fd_by_id": (ctypes.c_int, (_NUMBER,)),
    "bpf_map_get_fd_by_id": (ctypes.c_int, (_NUMBER,)),
    "bpf_map_get_next_key": (ctypes.c_int, (ctypes.c_int, _POINTER, _POINTER)),
    "bpf_map_lookup_elem": (ctypes.c_int, (ctypes.c_int, _POINTER, _POINTER)),
    "libbpf_set_print": (_POINTER, (_POINTER,)),
}


@cache
def libbpf() -> ctypes.CDLL:
    """The system's libbpf. Raises MissingError when there is none."""
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise MissingError("libbpf.so.1", "loads eBPF programs", "apt-get install libbpf-dev") from None
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.libbpf_set_print(None)  # it would write to stderr; errors are reported by us
    return library


class Refused(MissingError):
    """The kernel did not take an eBPF program."""


class BpfObject:
    """What was loaded from one object file. Close it when its programs are attached."""

    def __init__(self, object_file: Path, programs: Collection[str], map_entries: Mapping[str, int]) -> None:
        """Load `programs` and no others; `map_entries`: the sizes of maps. Raises Refused when the kernel will not."""
        self._library = library = libbpf()
        self._object = library.bpf_object__open_file(os.fsencode(object_file), None)
        if not self._object:
            raise OSError(ctypes.get_errno(), f"libbpf cannot read {object_file}")
        program = None
        while program := library.bpf_object__next_program(self._object, program):
            library.bpf_program__set_autoload(program, library.bpf_program__name(program).decode() in programs)
        for name, entries in map_entries.items():
            library.bpf_map__set_max_entries(self._map(name), entries)
        if library.bpf_object__load(self._object) != 0:
            number = ctypes.get_errno()
            self.close()
            raise Refused(
                f"the kernel's consent to load {object_file.name} ({os.strerror(number)})",
                "the eBPF programs of the ports",
                "mrclab doctor",
            )

    def program_fd(self, name: str) -> int:
        """What to attach a program by."""
        program = self._library.bpf_object__find_program_by_name(self._object, name.encode())
        return int(self._library.bpf_program__fd(program))

    def program_id(self, name: str) -> int:
        """The kernel's number of a program."""
        return fd_info(self.program_fd(name))["prog_id"]

    def map_fd(self, name: str) -> int:
        """A map's descriptor; it is closed with the object."""
        return int(self._library.bpf_map__fd(self._map(name)))

    def map_id(self, name: str) -> int:
        """The kernel's number of a map."""
        return fd_info(self.map_fd(name))["map_id"]

    def _map(self, name: str) -> int:
        found = self._library.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise ValueError(f"there is no map {name}")
        return int(found)

    def close(self) -> None:
        """Let go; the ports that programs are attached to keep them."""
        if self._object:
            self._library.bpf_object__close(self._object)
            self._object = None

    def __enter__(self) -> BpfObject:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fd_info(fd: int) -> dict[str, int]:
    """The numbers that the kernel tells of an eBPF object: `prog_id`, or `map_id`, `value_size`, `max_entries`..."""
    info = {}
    for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines():
        key, _, value = line.partition(":")
        if value.strip().isdigit():
            info[key] = int(value)
    return info


def is_loaded(program_id: int) -> bool:
    """Does the kernel still hold the program of that id?"""
    return _is_there(libbpf().bpf_prog_get_fd_by_id(program_id))


def map_is_there(map_id: int) -> bool:
    """Does the kernel still hold the map of that id?"""
    return _is_there(libbpf().bpf_map_get_fd_by_id(map_id))


def _is_there(fd: int) -> bool:
    if fd < 0:
        return False
    os.close(fd)
    return True


def open_map(map_id: int) -> int:
    """A descriptor of the map, the caller's to close. Raises FileNotFoundError when it is gone."""
    return _opened(libbpf().bpf_map_get_fd_by_id(map_id), f"eBPF map {map_id}")


def open_program(program_id: int) -> int:
    """The same of a program."""
    return _opened(libbpf().bpf_prog_get_fd_by_id(program_id), f"eBPF program {program_id}")


def _opened(fd: int, what: str) -> int:
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return fd
