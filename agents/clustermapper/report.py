"""What a host tells whoever gathers: all its paths and what it has decided. Goes as JSON over the control socket."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agents.clustermapper.track import PathReport


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """A host's paths; `denied`: planes that its policy has taken out of use. Times in ns."""

    host: int
    now_ns: int
    policy: str
    interval_ns: int
    denied: list[int]
    paths: list[PathReport]

    def of_plane(self, plane: int) -> list[PathReport]:
        """Its paths in a plane, the T0's first."""
        return [path for path in self.paths if path.plane == plane]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> HostReport:
        """The other way. Raises TypeError for what is none."""
        return cls(**{**fields, "paths": [PathReport(**path) for path in fields["paths"]]})
