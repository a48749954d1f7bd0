"""agents.telemetry: the beat of the samples, and what is dropped when nobody collects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import telemetry
from agents.telemetry import DEFAULT_SAMPLE_INTERVAL_NS as BEAT_NS
from agents.telemetry import Telemetry
from agents.transport import PacketLost, QpCounters


class Flow:
    """As much of a queue pair as a sample shows."""

    def __init__(self) -> None:
        self.qpn = 16
        self.counters = QpCounters(packets_sent=3)
        self.bytes_received_by_port = [10, 20]

    def ev_counts(self) -> dict[str, int]:
        return {"GOOD": 2}


@given(start=st.integers(0, 2**60), delays=st.lists(st.integers(0, 3 * BEAT_NS), min_size=1, max_size=50))
def test_there_is_one_sample_in_each_beat_in_which_there_was_time_for_it(start: int, delays: list[int]) -> None:
    kept = Telemetry(start)
    assert 0 < kept.next_timer() - start <= BEAT_NS
    for delay in delays:
        due = kept.next_timer()
        assert due % BEAT_NS == 0
        kept.sample([Flow()], due - 1)
        kept.sample([Flow()], due + delay)
    times = [one["t_ns"] for one in kept.samples.read(0, 1000)[0]]
    assert len(times) == len(delays)
    assert len({time // BEAT_NS for time in times}) == len(times)


def test_a_sample_is_a_copy_of_everything_at_its_time() -> None:
    kept, flow = Telemetry(0), Flow()
    kept.sample([flow], BEAT_NS)
    flow.counters.packets_sent = 99
    flow.bytes_received_by_port[0] = 99
    ((sample,), _, _) = kept.samples.read(0, 10)
    assert sample == {
        "t_ns": BEAT_NS,
        "qpn": 16,
        "bytes_received_by_port": [10, 20],
        "evs": {"GOOD": 2},
        **telemetry.counters_of(Flow()),
    }


def test_the_beat_can_be_changed_but_not_to_anything() -> None:
    kept = Telemetry(0)
    kept.set_interval(5_000_000, 12_000_000)
    assert kept.next_timer() == 15_000_000
    with pytest.raises(ValueError, match="at least 5000000"):
        kept.set_interval(4_999_999, 0)


def test_events_carry_their_kind_and_every_field() -> None:
    kept = Telemetry(0)
    kept.note(PacketLost(qpn=5, now_ns=9, psn=7, ev=3, sent_ns=1, cause="overdue", rtt_ns=8, window_ns=4))
    kept.note_carrier(2, False, 10)
    lost = {"qpn": 5, "now_ns": 9, "psn": 7, "ev": 3, "sent_ns": 1, "cause": "overdue", "rtt_ns": 8, "window_ns": 4}
    assert kept.events.read(0, 10)[0] == [
        {"kind": "PacketLost", **lost},
        {"kind": "CarrierChanged", "now_ns": 10, "port": 2, "up": False},
    ]


def ports(kept: Telemetry, start: int, limit: int = 10) -> tuple[list[int], int, int]:
    entries, after, missed = kept.events.read(start, limit)
    return [one["port"] for one in entries], after, missed


def test_two_readers_take_nothing_from_each_other() -> None:
    kept = Telemetry(0)
    for number in range(3):
        kept.note_carrier(number, True, number)
    assert ports(kept, 0, 2) == ([0, 1], 2, 0)
    assert ports(kept, 0) == ([0, 1, 2], 3, 0)
    assert ports(kept, 2) == ([2], 3, 0)
    assert ports(kept, 3) == ([], 3, 0)


def test_a_reader_that_comes_too_late_is_told_how_much_it_has_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_MAX_EVENTS", 3)
    kept = Telemetry(0)
    for number in range(5):
        kept.note_carrier(number, True, number)
    assert ports(kept, 0, 2) == ([2, 3], 4, 2)
    assert ports(kept, 1) == ([2, 3, 4], 5, 1)
    assert ports(kept, 3) == ([3, 4], 5, 0)


def test_a_place_in_the_log_of_an_agent_that_was_started_anew_means_its_beginning() -> None:
    kept = Telemetry(0)
    kept.note_carrier(7, True, 0)
    assert ports(kept, 500) == ([7], 1, 0)
