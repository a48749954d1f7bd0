"""Packets that were spoiled on the way: whatever the bytes, nothing is raised, and no memory changes."""

from __future__ import annotations

from random import Random

import pytest

from agents.wire import icrc
from agents.wire.packet import IPV6_BYTES, WireError, parse
from tests.unit.mrc.scripted import ScriptedPair

CONTENT = Random(1).randbytes(5000)
# From the inner addresses on the ICRC covers everything but the UDP checksum and the reserved byte of the BTH.
_FIRST_COVERED = IPV6_BYTES + 8
_NOT_COVERED = {2 * IPV6_BYTES + 6, 2 * IPV6_BYTES + 7, 2 * IPV6_BYTES + 8 + 4}


def packets_of_every_kind(pair: ScriptedPair) -> list[bytes]:
    """What goes over the wire to host 1, and has not arrived there."""
    region = pair.nics[1].register_memory(len(CONTENT))
    for number in range(3):
        pair.post(CONTENT[: 1 + 2400 * number], region, immediate=number or None)
    found = [b"".join(datagram.buffers) for datagram in pair.nics[0].datagrams_to_send(0)]
    pair.nics[0].probe(1, pair.qps[0].ev_map()[0].ev, 0)
    pair.nics[0].set_port_up(1, False, 0)
    pair.nics[0].handle_timer(1_000_000)
    found += [b"".join(datagram.buffers) for datagram in pair.nics[0].datagrams_to_send(1_000_000)]
    assert len({parse(data).opcode for data in found}) >= 5
    return found


def spoiled(data: bytes, rng: Random) -> bytes:
    """Some bits flipped, bytes written over, cut off or added, so that what the ICRC covers is not what it was."""
    mutant = bytearray(data)
    while covered(mutant[: len(data)]) == covered(data):
        mutant = mutated(data, rng)
    return bytes(mutant)


def covered(data: bytes | bytearray) -> bytes:
    """What the ICRC covers."""
    kept = bytearray(data)
    for at in _NOT_COVERED:
        if at < len(kept):
            kept[at] = 0
    return bytes(kept[_FIRST_COVERED:])


def mutated(data: bytes, rng: Random) -> bytearray:
    """Spoiled in one way or another."""
    mutant = bytearray(data)
    kind = rng.randrange(4)
    if kind == 0:
        del mutant[rng.randrange(len(mutant)) :]
    elif kind == 1:
        at = rng.randrange(len(mutant))
        mutant[at : at + rng.randrange(20)] = rng.randbytes(rng.randrange(40))
    for _ in range(1 + rng.randrange(4)):
        if len(mutant) > _FIRST_COVERED:
            at = rng.randrange(_FIRST_COVERED, len(mutant))
            if at not in _NOT_COVERED:
                mutant[at] ^= 1 + rng.randrange(255)
    return mutant


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_no_mutant_gets_through(count: int) -> None:
    pair = ScriptedPair(planes=4)
    packets = packets_of_every_kind(pair)
    regions = [buffer for _, _, buffer in pair.nics[1].memory._regions.values()]
    rng = Random(2)
    taken = 0
    for number in range(count):
        data = rng.randbytes(rng.randrange(300)) if number % 10 == 0 else spoiled(rng.choice(packets), rng)
        try:
            packet = parse(data)
        except WireError:
            pass
        else:
            taken += 1
            intact = packet.trimmed or icrc.value(data[IPV6_BYTES:-4]) == int.from_bytes(data[-4:], "little")
            assert intact or len(data) not in map(len, packets), "a wrong ICRC was overlooked"
        pair.nics[1].receive(rng.randrange(4), data, 0)
        list(pair.nics[1].datagrams_to_send(0))
    assert not any(any(region) for region in regions)
    assert taken < count / 100
    assert pair.qps[1].counters.packets_received == 0 and not list(pair.nics[1].events())
