"""What faults do, act by act: pure data that the lab's injector and the simulator read alike.

Each act has a `key`: what of the fabric it holds. Faults that hold the same thing add up (`standing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.topology.clos import Port

Key = tuple[str | int, ...]

# Fields of a port's settings (testbed.fabric), and what the kernel does with netem: (delay, jitter) in ns.
Setting = Literal[
    "black_hole", "loss", "match_kind", "match_value", "match_loss", "rate_bps", "ecn", "kmin_bytes", "kmax_bytes",
    "pmax", "trimming", "corrupt", "corrupt_unseen", "delay",
]  # fmt: skip
Value = bool | int | float | str | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Down:
    """The port is switched off by its own node: its peer loses carrier, and what either end sends is lost."""

    port: Port

    @property
    def key(self) -> Key:
        """The port."""
        return "down", self.port.ifindex


@dataclass(frozen=True, slots=True)
class Change:
    """A setting of the port has another value: it holds for what the port sends."""

    port: Port
    setting: Setting
    value: Value

    @property
    def key(self) -> Key:
        """This setting of the port."""
        return "change", self.port.ifindex, self.setting


@dataclass(frozen=True, slots=True)
class Blank:
    """A switch has no forwarding tables: what arrives there vanishes, links stay up."""

    node: str

    @property
    def key(self) -> Key:
        """The switch."""
        return "blank", self.node


@dataclass(frozen=True, slots=True)
class Pause:
    """A host's agent (its NIC) stands still: nothing is answered, timers do not fire; then it goes on."""

    host: str

    @property
    def key(self) -> Key:
        """The agent."""
        return "pause", self.host


@dataclass(frozen=True, slots=True)
class Kill:
    """A host's agent is killed and, when the fault ends, started anew: its queue pairs are gone for good."""

    host: str

    @property
    def key(self) -> Key:
        """The agent."""
        return "kill", self.host


@dataclass(frozen=True, slots=True)
class Deny:
    """The controller takes every EV that crosses the link out of use, at all hosts."""

    link: str

    @property
    def key(self) -> Key:
        """The link."""
        return "deny", self.link


Act = Down | Change | Blank | Pause | Kill | Deny
