"""What the machine did during a run, so that its own limits are not taken for the network's (design, truth 5).

CPU from /proc/stat and drops of the kernel's receive path from /proc/net/softnet_stat are the machine's, whoever caused
them; dropped frames at the agents' sockets and late timers come from the agents.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_SOFTNET_DROPPED_COLUMN = 1  # of each CPU's row, in hex (Documentation: net/core/net-procfs.c)
_IDLE_COLUMNS = (3, 4)  # idle, iowait of /proc/stat's `cpu` row
_GUEST_COLUMNS = 8  # guest time, from here on, is contained in user time


@dataclass(frozen=True, slots=True)
class Reading:
    """The machine's counters at one moment: CPU time in ticks since boot, softnet drops since boot."""

    busy_ticks: int
    total_ticks: int
    softnet_drops: int

    def cpu_fraction_since(self, earlier: Reading) -> float:
        """How busy all cores were together, 0..1; 0 when no tick has passed."""
        total = self.total_ticks - earlier.total_ticks
        return (self.busy_ticks - earlier.busy_ticks) / total if total else 0.0

    def drops_since(self, earlier: Reading) -> int:
        """Packets that the kernel dropped before any device or socket saw them."""
        return self.softnet_drops - earlier.softnet_drops


def parse_cpu(stat: str) -> tuple[int, int]:
    """(busy, total) ticks from the text of /proc/stat."""
    row = next(line for line in stat.splitlines() if line.startswith("cpu "))
    ticks = [int(word) for word in row.split()[1:]][:_GUEST_COLUMNS]
    total = sum(ticks)
    return total - sum(ticks[column] for column in _IDLE_COLUMNS), total


def parse_softnet_drops(softnet_stat: str) -> int:
    """Dropped packets of all CPUs from the text of /proc/net/softnet_stat."""
    return sum(int(line.split()[_SOFTNET_DROPPED_COLUMN], 16) for line in softnet_stat.splitlines() if line.strip())


def read(proc: Path = Path("/proc")) -> Reading:
    """The counters now."""
    busy, total = parse_cpu((proc / "stat").read_text())
    return Reading(busy, total, parse_softnet_drops((proc / "net/softnet_stat").read_text()))
