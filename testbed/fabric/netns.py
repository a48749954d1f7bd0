"""Network namespaces by name: the one place of the testbed that makes, enters and removes them.

Laid out as iproute2 does it (/run/netns/NAME, a bind mount of the namespace), so that `ip netns exec` and other tools
see the lab's nodes. Entering is per thread; `inside` always comes back.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from agents.rawio.libc import enter_network_namespace, enter_open_namespace

NETNS_DIR = Path("/run/netns")

_CLONE_NEWNET = 0x40000000
_MS_REC, _MS_BIND, _MS_SHARED = 0x4000, 0x1000, 1 << 20
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int | bytes | None) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def path_of(name: str) -> Path:
    """Where the namespace is mounted."""
    return NETNS_DIR / name


def names() -> set[str]:
    """All named namespaces of the machine."""
    return set(os.listdir(NETNS_DIR)) if NETNS_DIR.is_dir() else set()


def inode(name: str) -> int | None:
    """What identifies the namespace in /proc/PID/ns/net; None when there is none, or only a leftover file."""
    try:
        found = os.stat(path_of(name))
    except FileNotFoundError:
        return None
    return found.st_ino if found.st_dev == os.stat("/proc/self/ns/net").st_dev else None


def _prepare_dir() -> None:
    """/run/netns has to be a shared mount, or namespaces removed here stay visible in other mount namespaces."""
    NETNS_DIR.mkdir(mode=0o755, exist_ok=True)
    directory = os.fsencode(NETNS_DIR)
    try:
        _call("mount", b"", directory, b"none", _MS_SHARED | _MS_REC, None)
    except OSError:
        _call("mount", directory, directory, b"none", _MS_BIND | _MS_REC, None)
        _call("mount", b"", directory, b"none", _MS_SHARED | _MS_REC, None)


@contextlib.contextmanager
def _coming_back() -> Iterator[None]:
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        enter_open_namespace(own)
        os.close(own)


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Run the body in the namespace. Raises FileNotFoundError when there is none of that name."""
    with _coming_back():
        enter_network_namespace(path_of(name))
        yield


def leave() -> None:
    """Put the calling thread into a new namespace without a name; it goes when the thread has ended."""
    _call("unshare", _CLONE_NEWNET)


def create(name: str, sysctls: dict[str, str]) -> None:
    """Make a namespace and write its sysctls, in their order. Raises FileExistsError when the name is taken."""
    _prepare_dir()
    path = path_of(name)
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    with _coming_back():
        _call("unshare", _CLONE_NEWNET)
        _call("mount", b"/proc/thread-self/ns/net", os.fsencode(path), b"none", _MS_BIND, None)
        _write_sysctls(sysctls)


def write_sysctls(name: str, sysctls: dict[str, str]) -> None:
    """Write sysctls of a namespace, in their order."""
    with inside(name):
        _write_sysctls(sysctls)


def read_sysctls(name: str, keys: list[str]) -> dict[str, str]:
    """What the namespace has now; a key that the kernel does not know is left out."""
    found = {}
    with inside(name):
        for key in keys:
            with contextlib.suppress(FileNotFoundError):
                found[key] = _sysctl_path(key).read_text().strip()
    return found


def _sysctl_path(key: str) -> Path:
    return Path("/proc/sys") / key.replace(".", "/")


def _write_sysctls(sysctls: dict[str, str]) -> None:
    for key, value in sysctls.items():
        _sysctl_path(key).write_text(value)


def remove(name: str) -> None:
    """Remove the name; the namespace goes when nothing holds it any more. Not an error when there is none."""
    path = os.fsencode(path_of(name))
    with contextlib.suppress(OSError):  # EINVAL: a plain file, left by a command killed before its mount
        _call("umount2", path, _MNT_DETACH)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def open_socket(name: str, family: int, kind: int, protocol: int) -> socket.socket:
    """A socket that lives in the namespace, whatever the thread does later."""
    with inside(name):
        return socket.socket(family, kind, protocol)
