"""A request to an agent and its answer, whoever carries them: the control socket, or the simulator's own call."""

from __future__ import annotations

from typing import Any, Protocol


class RequestError(Exception):
    """The request cannot be done; the text goes to whoever asked."""


class Reply(Protocol):
    """Where the answer to one request goes; it may be given later. Only the first answer counts."""

    def ok(self, **fields: Any) -> None:
        """Answer with these fields."""
