"""One stream of messages to many viewers: each gets first what there is, then what comes; a slow one costs nothing.

What waits for a viewer is bounded. One that does not keep up loses what waited and gets the whole state anew.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any

import anyio

from testbed.measure.view import Message

HISTORY_TICKS = 600  # a minute, for a page that is opened or reloaded
HISTORY_EVENTS = 200
WAITING = 50  # messages for one viewer: five seconds
SILENT_S = 5.0  # then a viewer gets a sign of life

_KEPT_IN_HISTORY = ("type", "t", "planes", "flows")
_LASTING = (
    "scene",
    "faults",
    "status",
    "run",
    "health",
)  # types of messages of which the last one holds until the next


class _Viewer:
    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.behind = True  # needs the whole state
        self.woken = anyio.Event()


class Broadcast:
    """For the server's event loop; `publish` is to be called there."""

    def __init__(self) -> None:
        self._lasting: dict[str, Message] = {}
        self._ticks: deque[Message] = deque(maxlen=HISTORY_TICKS)
        self._last_tick: Message | None = None
        self._events: deque[Message] = deque(maxlen=HISTORY_EVENTS)
        self._viewers: set[_Viewer] = set()

    @property
    def viewers(self) -> int:
        """How many look on."""
        return len(self._viewers)

    @property
    def last(self) -> dict[str, Message]:
        """The last message of each lasting type, and the last tick."""
        return {**self._lasting, **({"tick": self._last_tick} if self._last_tick else {})}

    def publish(self, messages: Iterable[Message]) -> None:
        """Tell all viewers, and remember what later ones have to know."""
        for message in messages:
            self._remember(message)
            data = _encoded(message)
            for viewer in self._viewers:
                if len(viewer.waiting) < WAITING:
                    viewer.waiting.append(data)
                else:
                    viewer.waiting.clear()
                    viewer.behind = True
                viewer.woken.set()

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events for one viewer."""
        viewer = _Viewer()
        self._viewers.add(viewer)
        try:
            yield b"retry: 500\n\n"
            while True:
                if viewer.behind:
                    viewer.behind = False
                    viewer.waiting.clear()
                    yield _encoded(self._snapshot())
                elif viewer.waiting:
                    together = b"".join(viewer.waiting)
                    viewer.waiting.clear()
                    yield together
                else:
                    viewer.woken = anyio.Event()
                    with anyio.move_on_after(SILENT_S) as silence:
                        await viewer.woken.wait()
                    if silence.cancelled_caught:
                        yield b": still here\n\n"
        finally:
            self._viewers.discard(viewer)

    def _remember(self, message: Message) -> None:
        kind = message["type"]
        if kind == "scene":  # another lab: what was is no part of it
            self._ticks.clear()
            self._events.clear()
            self._last_tick = None
            self._lasting.pop("health", None)
        if kind in _LASTING:
            self._lasting[kind] = message
        elif kind == "tick":
            self._ticks.append({name: message[name] for name in _KEPT_IN_HISTORY})
            self._last_tick = message
        elif kind == "event":
            self._events.append(message)

    def _snapshot(self) -> dict[str, Any]:
        ticks = [*list(self._ticks)[:-1], *([self._last_tick] if self._last_tick else [])]
        return {"type": "snapshot", "messages": [*self._lasting.values(), *self._events, *ticks]}


def _encoded(message: Message) -> bytes:
    return b"data: " + json.dumps(message, separators=(",", ":")).encode() + b"\n\n"
