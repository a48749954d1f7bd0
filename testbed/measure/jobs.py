"""What jobs of ranks came to, as data: each size of each job of a run, and how it is told in a summary.

Bandwidths are nccl-tests' (`bandwidth`), times ns. `operations` counts those that every rank has ended and checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.measure.bandwidth import Bandwidth, bandwidth, percentile

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Interruption:
    """A queue pair died: whose, when it was noticed, and how many operations all ranks had ended until then."""

    host: str
    t_ns: int
    why: str
    operations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One size of a job. `times`: (began, ended, equal parts) of each operation of each rank that has ended.

    `wanted`: operations that were asked for, None for as many as there is time. `failed`: it ended by an interruption,
    or was not over when the run was.
    """

    workload: int
    kind: str
    ranks: int
    qps_per_pair: int
    message_bytes: int
    operations: int
    wanted: int | None
    failed: bool
    interruptions: Sequence[Interruption]
    restart_cost_ns: int | None
    times: Sequence[tuple[int, int, int]]
    bytes_delivered: int
    bytes_wrong: int
    messages_unexpected: int
    bytes_sent: int

    @property
    def elapsed_ns(self) -> int | None:
        """From the first rank's first operation to the last one's end, restarts included."""
        if not self.times:
            return None
        return max(ended for _, ended, _ in self.times) - min(began for began, _, _ in self.times)

    @property
    def speed(self) -> Bandwidth | None:
        """Mean over the elapsed time."""
        if not self.operations or not self.elapsed_ns:
            return None
        per_operation_ns = self.elapsed_ns / self.operations / self.times[0][2]
        return bandwidth(self.kind, self.ranks, self.message_bytes, per_operation_ns)

    @property
    def durations_ns(self) -> list[float]:
        """Of each operation of each rank, or of one of its equal parts."""
        return [(ended - began) / parts for began, ended, parts in self.times]

    def during(self, since_ns: int, until_ns: int) -> dict[str, Any] | None:
        """Of the operations that were under way then: how many there were, and percentiles of their seconds."""
        times = [one for one in self.times if one[0] < until_ns and one[1] > since_ns]
        durations = [(ended - began) / parts for began, ended, parts in times]
        return {"operations": round(len(times) / self.ranks), **_percentiles(durations)} if times else None

    def told(self, start_ns: int) -> dict[str, Any]:
        """For JSON: seconds (since `start_ns`), bandwidths in bits per second; None where nothing has ended."""
        durations, elapsed_ns, speed = self.durations_ns, self.elapsed_ns, self.speed
        names = ("workload", "kind", "ranks", "qps_per_pair", "message_bytes", "operations", "wanted", "failed")
        return {
            **{name: getattr(self, name) for name in names},
            "algbw_bps": None if speed is None else round(speed.algorithm_bps),
            "busbw_bps": None if speed is None else round(speed.bus_bps),
            "elapsed_s": None if elapsed_ns is None else elapsed_ns / 1e9,
            "operations_per_s": self.operations * 1e9 / elapsed_ns if elapsed_ns else None,
            "operation_s": _percentiles(durations) if durations else None,
            "interruptions": [
                {"host": one.host, "at_s": (one.t_ns - start_ns) / 1e9, "why": one.why, "operations": one.operations}
                for one in self.interruptions
            ],
            "restart_cost_s": None if self.restart_cost_ns is None else self.restart_cost_ns / 1e9,
            "bytes_delivered": self.bytes_delivered,
            "bytes_wrong": self.bytes_wrong,
            "messages_unexpected": self.messages_unexpected,
        }


def _percentiles(durations_ns: Sequence[float]) -> dict[str, float]:
    """In seconds; of at least one."""
    found = {f"p{percent}": percentile(durations_ns, percent) / 1e9 for percent in PERCENTILES}
    return {**found, "max": max(durations_ns) / 1e9}
