"""Virtual time only moves by events, in order."""

import pytest

from testbed.sim.events import EventList


def test_events_come_in_order_of_time_then_of_entry() -> None:
    events = EventList()
    seen: list[tuple[str, int]] = []
    for name, time_ns in (("c", 20), ("a", 10), ("d", 20), ("b", 15)):
        events.at(time_ns, lambda name=name: seen.append((name, events.now)))  # type: ignore[misc]
    while events.do_next_event():
        pass
    assert seen == [("a", 10), ("b", 15), ("c", 20), ("d", 20)]


def test_an_event_may_enter_more_but_not_in_the_past() -> None:
    events = EventList()
    events.at(5, lambda: events.after(0, lambda: None))
    assert events.do_next_event() and events.do_next_event() and not events.do_next_event()
    with pytest.raises(ValueError, match="has passed"):
        events.at(4, lambda: None)


def test_run_stops_when_it_holds_or_at_the_deadline() -> None:
    events = EventList()
    seen: list[int] = []
    for time_ns in (10, 20, 30):
        events.at(time_ns, lambda: seen.append(events.now))
    assert events.run(until=lambda: len(seen) == 1, deadline_ns=100)
    assert (events.now, seen) == (10, [10])
    assert not events.run(until=lambda: False, deadline_ns=25)
    assert (events.now, seen) == (25, [10, 20])
    assert not events.run(until=lambda: False, deadline_ns=1_000)
    assert (events.now, seen) == (1_000, [10, 20, 30])
