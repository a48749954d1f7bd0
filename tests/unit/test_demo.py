"""The story that the demonstration tells of a run: in the order of time, and no link is cut unannounced."""

from __future__ import annotations

from testbed.demo import Narrator
from testbed.measure.record import FaultActed
from tests.unit.measure.handmade import NIC_LINK, ev_change, loss, ns, run


def told(*events: object) -> list[str]:
    lines: list[str] = []
    Narrator(lines.append).live(run(), ns(0.5), list(events))  # type: ignore[arg-type]
    return lines


def cut(target: str, at_s: float, active: bool = True) -> FaultActed:
    return FaultActed(ns(at_s), 1, "link-down", target, "near", active, ns(at_s))


def test_what_the_cut_stops_is_told_right_behind_it() -> None:
    """Ordinary tools between h0 and h1 go over one of h0's links; so one of the four cuts stalls them."""
    stories = [told(cut(f"h0:p{plane}t0-0", 2.0)) for plane in range(4)]
    for story in stories:
        assert "LINK CUT" in story[0]
    stalled = [story for story in stories if "h0 and h1" in story[1]]
    assert len(stalled) == 1
    assert "ordinary tools" in stalled[0][1]


def test_events_are_told_in_the_order_of_time() -> None:
    story = told(
        ev_change(2.05, "ASSUMED_BAD"), loss(2.0, after_s=0.06), cut(NIC_LINK, 3.0, active=False), cut(NIC_LINK, 2.0)
    )
    told_s = [float(line.split()[0]) for line in story if line.split()[0] != "("]
    assert told_s == sorted(told_s)
    words = ["LINK CUT", "retired by h0>h2", "1 packet lost by 1 flow,", "LINK BACK"]
    places = [next(number for number, line in enumerate(story) if word in line) for word in words]
    assert places == sorted(places)
