"""Who probes which T1: the hosts of a T0 share its T0-T1 links, so that together they cover each of them."""

from __future__ import annotations

from collections.abc import Sequence


def deal(hosts: Sequence[int], t1s: int, plane: int = 0) -> dict[int, tuple[int, ...]]:
    """T1s of a plane by host, for the hosts of one T0 that can probe there.

    Each T1 is with one host at least and each host has one at least; nobody has two more than another. In each plane
    it begins with another host, so that what does not come out even is not always the same host's.
    """
    dealt: dict[int, list[int]] = {host: [] for host in hosts}
    for turn in range(max(len(hosts), t1s) if hosts else 0):
        dealt[hosts[(turn + plane) % len(hosts)]].append(turn % t1s)
    return {host: tuple(dict.fromkeys(mine)) for host, mine in dealt.items()}
