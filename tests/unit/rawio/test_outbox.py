"""Batches of packets given to a socket by one system call, on a pair of datagram sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from agents.rawio.batch import Outbox

START = b"start "


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        far.setblocking(False)
        yield near, far


def waiting(far: socket.socket) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(far.recv(1 << 16))
        except BlockingIOError:
            return found


def test_packets_leave_whole_in_order_and_the_room_is_used_again(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    outbox = Outbox(START, 4, 64)
    for packets in ([b"a long one at first", b"two", b""], [b"x", b"another"]):  # what was there before does not show
        for packet in packets:
            assert outbox.put((packet[:2], memoryview(packet)[2:], bytearray(b".")))
        assert len(outbox) == len(packets)
        assert outbox.send(near.fileno()) == (len(packets), sum(len(START) + len(one) + 1 for one in packets))
        assert waiting(far) == [START + one + b"." for one in packets]
        assert len(outbox) == 0


def test_no_more_than_there_is_room_for(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    outbox = Outbox(START, 2, 16)
    assert not outbox.put((b"0123456", b"7890"))
    assert outbox.put((b"01234", b"56789"))
    assert outbox.put((b"2",))
    assert not outbox.put((b"3",))
    assert outbox.send(near.fileno())[0] == 2
    assert waiting(far) == [START + b"0123456789", START + b"2"]


def test_it_says_how_many_were_taken(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    near.setblocking(False)
    room = 0
    while True:  # an AF_UNIX socket takes so many datagrams, and then refuses
        try:
            near.send(b"x")
        except BlockingIOError:
            break
        room += 1
    for _ in range(3):
        far.recv(1)
    outbox = Outbox(START, 5, 64)
    for number in range(5):
        outbox.put((b"x" * number,))
    assert outbox.send(near.fileno()) == (3, 3 * len(START) + 0 + 1 + 2)
    assert waiting(far)[-3:] == [START, START + b"x", START + b"xx"]
    assert outbox.send(near.fileno()) == (0, 0), "nothing is left in it"


def test_an_error_is_nothing_taken(pair: tuple[socket.socket, socket.socket]) -> None:
    near, _ = pair
    number = near.fileno()
    near.close()
    outbox = Outbox(START, 1, 64)
    outbox.put((b"x",))
    assert outbox.send(number) == (0, 0)
