"""testbed.web.following on a real lab: what a reader sees, and that it goes on when an agent does not answer."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator
from typing import Any

import pytest
from served import LINK, Browser, wait_until

from testbed.chaos import by_hand
from testbed.lab.running import RunningLab, open_lab
from testbed.web.following import Following

pytestmark = [pytest.mark.kernel]


@pytest.fixture
def following(lab: RunningLab) -> Iterator[Following]:
    """A reader of the lab."""
    one = Following(open_lab(lab.name))
    yield one
    one.close()


def tick(following: Following) -> dict[str, Any]:
    """The state now."""
    *_, last = following.look()
    assert last["type"] == "tick"
    return last


def test_an_agent_that_is_stopped_is_named_and_the_others_are_read_on(lab: RunningLab, following: Following) -> None:
    assert tick(following)["silent"] == []
    os.kill(lab.agent_pids["h1"], signal.SIGSTOP)
    try:
        assert tick(following)["silent"] == ["h1"]
        assert tick(following)["silent"] == ["h1"]
    finally:
        os.kill(lab.agent_pids["h1"], signal.SIGCONT)
    wait_until(lambda: tick(following)["silent"] == [])


def test_a_fault_from_a_terminal_is_told_with_the_next_look(lab: RunningLab, following: Following) -> None:
    assert tick(following)["down"] == []
    fault = by_hand.put(lab, "link-down", LINK)
    try:
        messages = following.look()
        assert messages[-1]["down"] == [LINK]
        assert [one["links"] for message in messages if message["type"] == "faults" for one in message["active"]] == [
            [LINK]
        ]
        assert any(f"LINK CUT   {LINK}" in message.get("text", "") for message in messages)
    finally:
        by_hand.clear(lab, fault.number)
    assert tick(following)["down"] == []


def test_a_link_that_is_down_without_any_fault_is_seen_within_one_round(lab: RunningLab, following: Following) -> None:
    port = lab.clos.links[LINK].b
    lab.ports.take_down(port)
    try:
        wait_until(lambda: tick(following)["down"] == [LINK])
    finally:
        lab.ports.bring_up(port)
    wait_until(lambda: tick(following)["down"] == [])


@pytest.mark.full
def test_being_looked_at_costs_the_traffic_next_to_nothing(
    lab: RunningLab, following: Following, page: Browser
) -> None:
    """Alternating: the page's own reader alone, and four more at its pace. What the hosts send stays what it is."""
    ports = [port.ifindex for name in lab.hosts for port, _ in lab.clos.ports(name)]

    def sent_in_two_seconds(readers: int) -> int:
        before, start = sum(lab.port_map.bytes_sent(port) for port in ports), time.monotonic()
        looks = 0
        while (passed := time.monotonic() - start) < 2:
            if passed * 10 * readers > looks:
                following.look()
                looks += 1
            else:
                time.sleep(0.005)
        return sum(lab.port_map.bytes_sent(port) for port in ports) - before

    ratios = [sent_in_two_seconds(readers=4) / sent_in_two_seconds(readers=0) for _ in range(9)]
    assert statistics.median(ratios) > 0.98, ratios
