"""A fabric that only remembers what acts did to it, with hands; tests/kernel has the real one."""

from __future__ import annotations

from typing import Any

from testbed.chaos.journal import Journal, MemoryJournal
from testbed.chaos.kinds.acts import Act, Change, Key
from testbed.chaos.kinds.kind import Kind
from testbed.topology.clos import Port
from testbed.topology.errors import MissingError
from testbed.topology.port_stamps import PortStamps

HEALTHY = "as made"


class FabricInMemory:
    """`now` has what is not as it was made, by key. Acts on a node in `broken` are refused."""

    def __init__(self, journal: Journal) -> None:
        self.now: dict[Key, Any] = {}
        self.broken: set[str] = set()
        self.watched: dict[Port, PortStamps] = {}
        self.acts: list[tuple[str, Key]] = []
        # Read by somebody else, so that looking here tells the injector's own journal nothing.
        self._journal = journal if isinstance(journal, MemoryJournal) else Journal(journal.path.parent)

    def refuse_unable(self, kind: Kind) -> None:
        """Here as on a kernel without netem."""
        if kind.needs_netem:
            raise MissingError("netem", "delays links", "another kernel")

    def found(self, act: Act) -> Any:
        """A plain value, as the real hands have it."""
        return self.now.get(act.key, HEALTHY) if isinstance(act, Change) else None

    def watch(self, port: Port) -> None:
        """Nothing was noted since."""
        self.watched[port] = PortStamps()

    def stamps(self, port: Port) -> PortStamps:
        """What a test says that it noted."""
        return self.watched[port]

    def do(self, act: Act) -> None:
        """Remember it."""
        assert self._journal.active(), "acted before the journal knew"
        self._refuse(act)
        self.acts.append(("do", act.key))
        self.now[act.key] = act.value if isinstance(act, Change) else True

    def restore(self, act: Act, found: Any) -> None:
        """Forget it, or remember what was found."""
        assert self._journal.active(), "the journal forgot it before it was undone"
        self._refuse(act)
        self.acts.append(("restore", act.key))
        self.now.pop(act.key, None)
        if isinstance(act, Change) and found != HEALTHY:
            self.now[act.key] = found

    def _refuse(self, act: Act) -> None:
        port = getattr(act, "port", None)
        if port is not None and port.node in self.broken:
            raise OSError(f"{port.node} refuses")
