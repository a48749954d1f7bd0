"""testbed.web.broadcast: what there is first, then what comes; a viewer that does not keep up costs nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from testbed.web.broadcast import HISTORY_TICKS, WAITING, Broadcast


def tick(t: int) -> dict[str, Any]:
    return {"type": "tick", "t": t, "planes": [t], "flows": {}, "loads": [1, 2]}


def parsed(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]


async def opened(broadcast: Broadcast) -> tuple[AsyncIterator[bytes], list[dict[str, Any]]]:
    """A viewer's stream, and the messages of the state that it was given first."""
    stream = broadcast.stream()
    assert (await anext(stream)).startswith(b"retry:")
    (snapshot,) = parsed(await anext(stream))
    assert snapshot["type"] == "snapshot"
    return stream, snapshot["messages"]


def test_a_viewer_gets_what_there_is_then_what_comes() -> None:
    async def scenario() -> None:
        broadcast = Broadcast()
        scene, event = {"type": "scene", "lab": "x"}, {"type": "event", "t": 1, "text": "a"}
        broadcast.publish([scene, tick(1), event, tick(2)])
        stream, known = await opened(broadcast)
        without_loads = {"type": "tick", "t": 1, "planes": [1], "flows": {}}
        assert known == [scene, event, without_loads, tick(2)]
        broadcast.publish([tick(3), tick(4)])
        assert parsed(await anext(stream)) == [tick(3), tick(4)]
        assert broadcast.viewers == 1
        await stream.aclose()  # type: ignore[attr-defined]
        assert broadcast.viewers == 0

    asyncio.run(scenario())


def test_another_lab_leaves_nothing_of_the_one_before() -> None:
    async def scenario() -> None:
        broadcast = Broadcast()
        broadcast.publish([{"type": "scene", "lab": "x"}, tick(1), {"type": "event", "t": 1, "text": "a"}])
        broadcast.publish([{"type": "scene", "lab": "y"}])
        _, known = await opened(broadcast)
        assert known == [{"type": "scene", "lab": "y"}]

    asyncio.run(scenario())


def test_what_waits_for_a_viewer_that_does_not_read_is_bounded_and_then_it_gets_the_state_anew() -> None:
    async def scenario() -> None:
        broadcast = Broadcast()
        slow, _ = await opened(broadcast)
        quick, _ = await opened(broadcast)
        for t in range(10 * HISTORY_TICKS):
            broadcast.publish([tick(t)])
            assert parsed(await anext(quick)) == [tick(t)]
            assert all(len(viewer.waiting) <= WAITING for viewer in broadcast._viewers)
        (state,) = parsed(await anext(slow))
        assert state["type"] == "snapshot"
        assert [one["t"] for one in state["messages"]] == list(range(9 * HISTORY_TICKS, 10 * HISTORY_TICKS))
        broadcast.publish([tick(0)])
        assert parsed(await anext(slow)) == [tick(0)]

    asyncio.run(scenario())
