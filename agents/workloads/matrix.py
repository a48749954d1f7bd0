"""Who sends to whom in traffic of plain flows (`write_bw`): pairs of host numbers, by name."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

Pairs = list[tuple[int, int]]


def permutation(hosts: int, rng: Random) -> Pairs:
    """Every host sends to one other, and receives from one other (paper, figure 20). Raises ValueError below 2."""
    if hosts < 2:
        raise ValueError(f"a permutation of {hosts} hosts; there have to be 2 at least")
    # A random cycle through all of them: nobody sends to itself.
    cycle = rng.sample(range(hosts), hosts)
    return sorted((src, cycle[(place + 1) % hosts]) for place, src in enumerate(cycle))


def incast(racks: Sequence[Sequence[int]], target: int, senders: int) -> tuple[Pairs, tuple[int, int]]:
    """(flows of an n:1 incast, victim flow): figure 18 of the paper.

    `racks`: the hosts of each T0. The senders are hosts of other racks, taken from these in turns. The victim flow goes
    from another rack to another host in the target's rack; its sender takes no part in the incast.
    Raises ValueError when there are not so many.
    """
    home = next((rack for rack in racks if target in rack), None)
    if home is None:
        raise ValueError(f"no rack has host {target}")
    others = [rack for rack in racks if rack is not home]
    deepest = max((len(rack) for rack in others), default=0)
    free = [rack[place] for place in range(deepest) for rack in others if place < len(rack)]
    bystanders = [host for host in home if host != target]
    if senders < 1 or len(free) < senders + 1 or not bystanders:
        raise ValueError(
            f"an incast of {senders} senders with a victim needs {senders + 1} hosts in other racks and one more in "
            f"the target's; there are {len(free)} and {len(bystanders)}"
        )
    return [(sender, target) for sender in free[:senders]], (free[senders], bystanders[0])
