"""A NIC and an application with nothing to do, to which tests add what they need."""

from __future__ import annotations

from collections.abc import Iterable

from agents.transport import Datagram, Event


class IdleNic:
    """Counts nothing, sends nothing, waits for nothing."""

    idle = False

    def receive(self, port: int, data: memoryview, now: int) -> None:
        """Take no notice."""

    def set_port_ready(self, port: int, ready: bool) -> None:
        """Take no notice."""

    def set_port_up(self, port: int, up: bool, now: int) -> None:
        """Take no notice."""

    def next_timer(self) -> int | None:
        return None

    def handle_timer(self, now: int) -> None:
        raise AssertionError("nothing was due")

    def events(self) -> Iterable[Event]:
        return ()

    def datagrams_to_send(self, now: int) -> Iterable[Datagram]:
        return ()


class IdleApplication:
    """Wants nothing and does nothing."""

    def on_event(self, event: Event, now: int) -> None:
        """Take no notice."""

    def on_carrier(self, port: int, up: bool, now: int) -> None:
        """Take no notice."""

    def next_timer(self) -> int | None:
        return None

    def handle_timer(self, now: int) -> None:
        raise AssertionError("nothing was due")
