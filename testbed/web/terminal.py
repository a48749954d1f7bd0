"""The essentials of the live page in a terminal, for ssh: fed by the same thread, from the same messages."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from testbed.measure.view import Message
from testbed.topology.units import format_rate
from testbed.web.live import LiveLab

REFRESH_PER_S = 5
MOST_FLOWS = 16
MOST_EVENTS = 12
_BAR_WIDTH = 30
_EMPHASIS = {"fault": "bold red", "failure": "bold red", "verdict": "bold", "path": "yellow", "plane": "yellow"}


class Screen:
    """What is on the terminal: takes messages, and renders."""

    def __init__(self) -> None:
        self._last: dict[str, Message] = {}
        self._events: deque[Message] = deque(maxlen=MOST_EVENTS)

    def take(self, messages: Iterable[Message]) -> None:
        """Take in what is new."""
        for message in messages:
            if message["type"] == "event":
                self._events.append(message)
                continue
            self._last[message["type"]] = message
            if message["type"] == "scene" or message.get("state") == "lost":
                self._last.pop("tick", None)
                self._events.clear()

    def render(self) -> RenderableType:
        """The whole screen."""
        scene, tick, status = (self._last.get(kind) for kind in ("scene", "tick", "status"))
        if scene is None or tick is None:
            return Text(status["text"] if status else "connecting", "bold")
        parts: list[RenderableType] = [self._head(scene, tick), self._planes(scene, tick), self._flows(scene, tick)]
        faults = self._last.get("faults", {}).get("active", [])
        names = ", ".join(f"{fault['number']}: {fault['kind']} {fault['target']}" for fault in faults)
        parts.append(Text(f"faults in force: {names or 'none'}", "bold red" if faults else "dim"))
        parts += [Text(f"the agent of {host} does not answer", "bold red") for host in tick["silent"]]
        parts += [Text(f"machine: {warning}", "yellow") for warning in tick["warnings"]]
        for event in self._events:
            parts.append(Text(f"{event['t'] / 1000:8.1f} s  {event['text']}", _EMPHASIS.get(event["topic"], "")))
        return Group(*parts)

    def _head(self, scene: Message, tick: Message) -> Text:
        figures = (
            f"lab {scene['lab']}   {format_rate(sum(tick['planes']) * 1000)} goodput   {tick['lost']} lost   "
            f"{tick['retransmitted']} sent again   {tick['trimmed']} trimmed   {tick['marked']} CE   "
            f"{tick['bytes_wrong']} bytes wrong   CPU {tick['cpu']:.0%}"
        )
        return Text(figures, "bold")

    def _planes(self, scene: Message, tick: Message) -> Table:
        hosts = sum(node["kind"] == "host" for node in scene["nodes"])
        table = Table.grid(padding=(0, 1))
        for plane, kbps in enumerate(tick["planes"]):
            filled = min(_BAR_WIDTH, round(_BAR_WIDTH * kbps / (scene["host_rate_kbps"] * hosts)))
            bar = "#" * filled + "." * (_BAR_WIDTH - filled)
            down = [name for name in tick["down"] if f"p{plane}t" in name]
            table.add_row(f"plane {plane}", bar, format_rate(kbps * 1000), Text(" ".join(down), "bold red"))
        return table

    def _flows(self, scene: Message, tick: Message) -> Table:
        paths = scene["planes"] * scene["t1s_per_plane"]
        table = Table.grid(padding=(0, 2))
        for flow, kbps in list(tick["flows"].items())[:MOST_FLOWS]:
            out = {(plane, t1): state for plane, t1, state in tick["paths"].get(flow, [])}
            where = ", ".join(f"p{plane}t1-{t1} {state.lower()}" for (plane, t1), state in sorted(out.items()))
            used = f"{paths - len(out)} of {paths} paths"
            table.add_row(flow, format_rate(kbps * 1000), used, Text(where, "red"))
        if len(tick["flows"]) > MOST_FLOWS:
            table.add_row(f"and {len(tick['flows']) - MOST_FLOWS} more flows")
        return table


def watch(name: str | None, seconds: float | None) -> None:
    """Show lab `name`, or the one that is up, until Ctrl-C or for some seconds; without a terminal only the end."""
    arrived: queue.SimpleQueue[list[Message]] = queue.SimpleQueue()
    screen = Screen()
    lab = LiveLab(name, arrived.put)
    lab.watched.set()
    lab.start()
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        with Live(console=Console(), auto_refresh=False, transient=False) as shown:
            while deadline is None or time.monotonic() < deadline:
                _take_for(1 / REFRESH_PER_S, arrived, screen)
                shown.update(screen.render(), refresh=True)
    except KeyboardInterrupt:
        pass
    finally:
        lab.stop()


def _take_for(seconds: float, arrived: queue.SimpleQueue[list[Message]], screen: Screen) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            screen.take(arrived.get(timeout=left))
        except queue.Empty:
            return
