"""Namespaces by name: made, entered, left and removed, also when a command died between two steps."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from testbed.fabric import netns

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(60)]

NAME = "fa-netns.x"


@pytest.fixture(autouse=True)
def removed() -> Iterator[None]:
    yield
    netns.remove(NAME)


def own_inode() -> int:
    return os.stat("/proc/thread-self/ns/net").st_ino


def test_a_namespace_is_made_with_its_sysctls_and_we_stay_outside() -> None:
    before = own_inode()
    netns.create(NAME, {"net.ipv6.conf.all.forwarding": "1", "net.ipv6.conf.default.forwarding": "0"})
    assert own_inode() == before
    assert netns.inode(NAME) not in (None, before)
    keys = ["net.ipv6.conf.all.forwarding", "net.ipv6.conf.default.forwarding", "net.no.such.key"]
    assert list(netns.read_sysctls(NAME, keys).values()) == ["1", "0"]


def test_iproute2_sees_it() -> None:
    netns.create(NAME, {})
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert NAME in listed.split()


def test_what_is_there_is_not_made_again() -> None:
    netns.create(NAME, {})
    inode = netns.inode(NAME)
    with pytest.raises(FileExistsError):
        netns.create(NAME, {})
    assert netns.inode(NAME) == inode


def test_an_error_inside_comes_back_outside() -> None:
    netns.create(NAME, {})
    before = own_inode()
    with pytest.raises(ZeroDivisionError), netns.inside(NAME):
        assert own_inode() == netns.inode(NAME)
        raise ZeroDivisionError
    assert own_inode() == before


def test_a_socket_stays_in_its_namespace() -> None:
    netns.create(NAME, {})
    with netns.open_socket(NAME, socket.AF_PACKET, socket.SOCK_RAW, 0) as made:
        made.bind(("lo", 0))
        with pytest.raises(OSError) as error:  # the machine has this one, the namespace does not
            made.bind((_own_link(), 0))
    assert error.value.errno == errno.ENODEV


def _own_link() -> str:
    return next(name for _, name in socket.if_nameindex() if name != "lo")


def test_the_file_of_a_command_that_died_before_its_mount_is_removed() -> None:
    netns.create(NAME, {})
    netns.remove(NAME)
    netns.path_of(NAME).touch()
    assert netns.inode(NAME) is None
    netns.remove(NAME)
    assert NAME not in netns.names()


def test_removing_what_is_not_there_is_no_error() -> None:
    netns.remove(NAME)
    with pytest.raises(FileNotFoundError), netns.inside(NAME):
        pytest.fail("there is nothing to be inside of")
