"""Compiling and loading the eBPF programs of the fabric, through the system's clang and libbpf.

A program is compiled when its source has changed (kept under the machine's cache directory, named by content), loaded
once, and attached by file descriptor to every port; the ports keep it alive, nothing is pinned.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
from pathlib import Path

from testbed.topology.errors import MissingError

CACHE_DIR = Path("/var/cache/mrclab")
INGRESS_SOURCE = Path(__file__).with_name("ingress.bpf.c")

# Debian and Ubuntu keep asm/types.h in the architecture's own folder, which the bpf target does not search.
_FLAGS = ("-O2", "-g", "-Wall", "-target", "bpf", f"-I/usr/include/{platform.machine()}-linux-gnu")


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


def _libbpf() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise MissingError("libbpf.so.1", "loads eBPF programs", "apt-get install libbpf-dev") from None
    for name in ("bpf_object__open_file", "bpf_object__find_program_by_name"):
        getattr(library, name).restype = ctypes.c_void_p
    library.bpf_object__open_file.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    library.bpf_object__load.argtypes = [ctypes.c_void_p]
    library.bpf_object__find_program_by_name.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.bpf_program__fd.argtypes = [ctypes.c_void_p]
    library.bpf_object__close.argtypes = [ctypes.c_void_p]
    library.libbpf_set_print.argtypes = [ctypes.c_void_p]
    library.libbpf_set_print(None)  # it would write to stderr; errors are reported by us
    return library


class Program:
    """A loaded program: `fd` to attach it by, `id` as the kernel numbers it. Close it when it is attached."""

    def __init__(self, object_file: Path, name: str) -> None:
        self._library = _libbpf()
        self._object = self._library.bpf_object__open_file(os.fsencode(object_file), None)
        if not self._object:
            raise OSError(ctypes.get_errno(), f"libbpf cannot read {object_file}")
        if self._library.bpf_object__load(self._object) != 0:
            number = ctypes.get_errno()
            self.close()
            raise MissingError(
                f"the kernel's consent to load {object_file.name} ({os.strerror(number)})",
                "drops the agents' packets before the host's stack",
                "mrclab doctor",
            )
        program = self._library.bpf_object__find_program_by_name(self._object, name.encode())
        self.name = name
        self.fd: int = self._library.bpf_program__fd(program)
        self.id = _program_id(self.fd)

    def close(self) -> None:
        """Let go; the ports it is attached to keep the program."""
        if self._object:
            self._library.bpf_object__close(self._object)
            self._object = None

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _program_id(fd: int) -> int:
    for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == "prog_id":
            return int(value)
    raise OSError(f"file descriptor {fd} is no eBPF program")


def is_loaded(program_id: int) -> bool:
    """Does the kernel still hold the program of that id?"""
    fd = _libbpf().bpf_prog_get_fd_by_id(program_id)
    if fd < 0:
        return False
    os.close(fd)
    return True


def load_ingress() -> Program:
    """The program at the ingress of every host port."""
    return Program(compile_program(INGRESS_SOURCE), "mrclab_ingress")
