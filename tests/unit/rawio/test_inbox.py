"""Batches of packets by one system call, on a pair of datagram sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from agents.rawio.batch import Inbox

PACKETS = [b"one", b"", b"three" * 10, bytes(range(64))]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        yield near, far


def test_a_batch_comes_whole_and_in_order(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    inbox = Inbox(8, 64)
    for _ in range(3):  # the room is used again
        for packet in PACKETS:
            near.send(packet)
        assert list(map(bytes, inbox.fill(far.fileno(), inbox.size))) == PACKETS
        assert inbox.fill(far.fileno(), inbox.size) == []


def test_no_more_than_asked_for_and_no_more_than_there_is_room_for(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    for number in range(9):
        near.send(bytes([number]))
    inbox = Inbox(4, 64)
    assert [packet[0] for packet in inbox.fill(far.fileno(), 3)] == [0, 1, 2]
    assert [packet[0] for packet in inbox.fill(far.fileno(), 100)] == [3, 4, 5, 6]
    assert [packet[0] for packet in inbox.fill(far.fileno(), 100)] == [7, 8]


def test_what_is_too_long_is_cut_off_and_spoils_no_other(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    near.send(b"x" * 100)
    near.send(b"y" * 64)
    assert list(map(bytes, Inbox(2, 64).fill(far.fileno(), 2))) == [b"x" * 64, b"y" * 64]


def test_an_error_is_no_packet(pair: tuple[socket.socket, socket.socket]) -> None:
    _, far = pair
    number = far.fileno()
    far.close()
    assert Inbox(2, 64).fill(number, 2) == []
