"""The watch over a region sees bytes that are missing, wrong, beside their place, or written again."""

import random

import pytest

from agents.memory import MemoryTable
from agents.wire import address, dscp, ev, frame
from agents.wire.headers import Opcode
from testbed.sim.memory import MemoryWatch

CHUNK = 64
CONTENT = random.Random(1).randbytes(4 * CHUNK)
PATH = frame.PathTemplate(
    src=address.host_address(0), dst=address.host_address(1), usids=address.path_usids(0, 0, 0, 1, 0), ev=ev.make(0, 0)
)


class Receiver:
    """A region, its watch, and a receiver that can be told to do wrong."""

    def __init__(self) -> None:
        self.region = MemoryTable(random.Random(1)).register(len(CONTENT))
        self.watch = MemoryWatch(self.region, CONTENT)

    def take(self, chunk: int, *, write: bytes | None = None, at: int | None = None) -> None:
        """Packet number `chunk` comes in; what is written (default: its payload) where (default: its place)."""
        payload = CONTENT[chunk * CHUNK : (chunk + 1) * CHUNK]
        buffers = frame.write(
            PATH, dscp=dscp.NO_TRIM, dest_qp=3, psn=chunk, opcode=Opcode.WRITE_MIDDLE, msn=0, rqmsn=0,
            address=self.region.address + chunk * CHUNK, rkey=self.region.rkey, length=len(CONTENT), payload=payload,
        )  # fmt: skip
        stored = payload if write is None else write
        offset = chunk * CHUNK if at is None else at

        def receive() -> None:
            self.region.buffer[offset : offset + len(stored)] = stored

        self.watch.take(b"".join(buffers), receive)


def test_every_byte_once_in_any_order_is_right() -> None:
    receiver = Receiver()
    for chunk in (2, 0, 3, 1):
        receiver.take(chunk)
        receiver.take(chunk, write=b"")  # a duplicate that is not written
    receiver.watch.check()


def test_a_missing_packet() -> None:
    receiver = Receiver()
    for chunk in (0, 1, 3):
        receiver.take(chunk)
    with pytest.raises(AssertionError, match="never written"):
        receiver.watch.check()


def test_a_second_write_of_the_same_bytes() -> None:
    receiver = Receiver()
    for chunk in (0, 1, 2, 3, 2):
        receiver.take(chunk)
    with pytest.raises(AssertionError, match="more than once"):
        receiver.watch.check()


def test_a_wrong_byte() -> None:
    with pytest.raises(AssertionError, match="wrong bytes"):
        Receiver().take(1, write=CONTENT[CHUNK : 2 * CHUNK - 1] + bytes([CONTENT[2 * CHUNK - 1] ^ 1]))


def test_bytes_beside_their_place() -> None:
    receiver = Receiver()
    for chunk in range(4):
        receiver.take(chunk)
    receiver.take(0, at=2 * CHUNK, write=b"x")
    with pytest.raises(AssertionError, match="beside its place"):
        receiver.watch.check()
