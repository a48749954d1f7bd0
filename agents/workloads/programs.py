"""What ranks do, as nccl-tests and perftest name it: a table of kinds, and a program for each.

Every message is checked where it arrives. Sizes are those of nccl-tests: `message_bytes` is what a rank gives to an
operation; of an all-to-all each rank sends a part of it to every other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agents.workloads import numbers
from agents.workloads.pattern import Pattern
from agents.workloads.rank import Began, Ended, Program, RankCounters, Receive, Send, Sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What all ranks know. Raises ValueError for numbers that make no sense."""

    kind: str
    ranks: int
    message_bytes: int
    operations: int  # repetitions; of training the steps
    seed: int
    compute_ns: int = 0  # training: between two collectives
    first: int = 0  # the operation to begin with, after a restart

    def __post_init__(self) -> None:
        kind = KINDS.get(self.kind)
        if kind is None:
            raise ValueError(f"no kind of job is called {self.kind!r}; there are: {', '.join(KINDS)}")
        most = kind.most_ranks
        if not 2 <= self.ranks <= most:
            raise ValueError(f"{self.kind} with {self.ranks} ranks; it can be 2 to {most}")
        if self.message_bytes < 1 or (kind.of_numbers and self.message_bytes % numbers.NUMBER_BYTES):
            raise ValueError(f"{self.kind} of {self.message_bytes} bytes; it has to be a multiple of 4, at least 4")
        if not 0 <= self.first <= self.operations or self.compute_ns < 0:
            raise ValueError("operations, first and compute_ns cannot be negative, nor first beyond operations")

    def pattern(self, src: int, dst: int, size_bytes: int) -> Pattern:
        """The messages that one rank sends to another."""
        return Pattern((self.seed * numbers.MAX_RANKS + src) * numbers.MAX_RANKS + dst, size_bytes)


def _write_lat(job: Job, rank: int, counters: RankCounters) -> Program:
    """Back and forth; the time of one way is half of it, as in perftest."""
    other = 1 - rank
    sent, wanted = (job.pattern(*ends, job.message_bytes) for ends in ((rank, other), (other, rank)))
    for number in range(job.first, job.operations):
        yield Began()
        if rank == 0:
            yield Send(other, sent.message(number))
        counters.check((yield Receive(other)), wanted.message(number))
        if rank == 1:
            yield Send(other, sent.message(number))
        yield Ended(parts=2)


def _sendrecv(job: Job, rank: int, counters: RankCounters) -> Program:
    """To the next in the ring, from the one before."""
    following, before = (rank + 1) % job.ranks, (rank - 1) % job.ranks
    sent = job.pattern(rank, following, job.message_bytes)
    wanted = job.pattern(before, rank, job.message_bytes)
    for number in range(job.first, job.operations):
        yield Began()
        yield Send(following, sent.message(number))
        counters.check((yield Receive(before)), wanted.message(number))
        yield Ended()


def _all_to_all(job: Job, rank: int, counters: RankCounters) -> Program:
    """A part to every other rank; each begins with the one behind itself, so that none is sent to by all at once."""
    part_bytes = max(1, job.message_bytes // job.ranks)
    others = [(rank + offset) % job.ranks for offset in range(1, job.ranks)]
    sent = {other: job.pattern(rank, other, part_bytes) for other in others}
    wanted = {other: job.pattern(other, rank, part_bytes) for other in others}
    for number in range(job.first, job.operations):
        yield Began()
        for other in others:
            yield Send(other, sent[other].message(number))
        for other in reversed(others):
            counters.check((yield Receive(other)), wanted[other].message(number))
        yield Ended()


def _ring_allreduce(job: Job, rank: int, counters: RankCounters) -> Program:
    for number in range(job.first, job.operations):
        yield Began()
        yield from _reduce(job, rank, number, counters)
        yield Ended()


def _training(job: Job, rank: int, counters: RankCounters) -> Program:
    """Steps of computing and an all-reduce, in which the slowest rank holds everybody."""
    for number in range(job.first, job.operations):
        yield Began()
        yield Sleep(job.compute_ns)
        yield from _reduce(job, rank, number, counters)
        yield Ended()


def _reduce(job: Job, rank: int, number: int, counters: RankCounters) -> Program:
    """Ring all-reduce: n-1 steps that add, n-1 that pass on the sums (Patarasuk and Yuan, 2009)."""
    ranks, size = job.ranks, job.message_bytes
    following, before = (rank + 1) % ranks, (rank - 1) % ranks
    vector = bytearray(numbers.contribution(job.seed, rank, number, size))
    for step in range(2 * (ranks - 1)):
        adding = step < ranks - 1
        given = numbers.share(size, ranks, (rank - step) % ranks)
        yield Send(following, bytes(vector[given]))
        taken = numbers.share(size, ranks, (rank - step - 1) % ranks)
        received = yield Receive(before)
        vector[taken] = numbers.added(vector[taken], received) if adding else received
    counters.check(vector, numbers.expected_sum(job.seed, ranks, number, size))


def _pair(job: Job) -> Iterator[tuple[int, int]]:
    yield 0, 1


def _ring(job: Job) -> Iterator[tuple[int, int]]:
    last = job.ranks if job.ranks > 2 else 1
    for rank in range(last):
        yield rank, (rank + 1) % job.ranks


def _everybody(job: Job) -> Iterator[tuple[int, int]]:
    for rank in range(job.ranks):
        for other in range(rank + 1, job.ranks):
            yield rank, other


@dataclass(frozen=True, slots=True)
class Kind:
    """A program, which pairs of ranks it connects, and what nccl-tests' bus bandwidth is of its algbw."""

    program: Callable[[Job, int, RankCounters], Program]
    pairs: Callable[[Job], Iterator[tuple[int, int]]]
    bus_factor: Callable[[int], float]
    most_ranks: int = numbers.MAX_RANKS
    of_numbers: bool = False
    round_the_ring: bool = False  # more than two ranks send only from the first of a pair to the second

    def flows(self, job: Job) -> Iterator[tuple[int, int]]:
        """(sender, receiver) of all payload, ranks."""
        for near, far in self.pairs(job):
            yield near, far
            if not (self.round_the_ring and job.ranks > 2):
                yield far, near


# The factors are those of nccl-tests' doc/PERFORMANCE.md.
KINDS: dict[str, Kind] = {
    "write_lat": Kind(_write_lat, _pair, lambda ranks: 1.0, most_ranks=2),
    "sendrecv": Kind(_sendrecv, _ring, lambda ranks: 1.0, round_the_ring=True),
    "all_to_all": Kind(_all_to_all, _everybody, lambda ranks: (ranks - 1) / ranks),
    "ring_allreduce": Kind(
        _ring_allreduce, _ring, lambda ranks: 2 * (ranks - 1) / ranks, of_numbers=True, round_the_ring=True
    ),
    "training": Kind(_training, _ring, lambda ranks: 2 * (ranks - 1) / ranks, of_numbers=True, round_the_ring=True),
}
