"""NSCC, case by case, on scripted signals: what the window does follows from the table in its module."""

from __future__ import annotations

from typing import Any

import pytest

from agents.mrc.config import MrcConfig
from agents.mrc.congestion.base import Fabric
from agents.mrc.congestion.nscc import Nscc, NsccProfile

US = 1000
MTU = 4096
BASE = 12 * US
TARGET = 9 * US  # 3/4 of the base round trip
FABRIC = Fabric(planes=1, mtu_bytes=MTU)  # the reference network: a = 1


class Window:
    """An NSCC that has already seen the shortest round trip, and a clock."""

    def __init__(self, cwnd: int | None = None, **settings: Any) -> None:
        self.nscc = Nscc(MrcConfig(congestion_settings={"disable_qa": True, **settings}), FABRIC)
        self.now = 1000 * US
        if cwnd is not None:
            self.nscc.on_lost(self.nscc.window_bytes - cwnd, self.now)
            assert self.cwnd == cwnd
        self.ack(1, 0)
        assert cwnd is None or self.cwnd == cwnd

    @property
    def cwnd(self) -> int:
        return self.nscc.window_bytes

    def ack(
        self, size: int, delay: int, *, marked: bool = False, penalty: int = 0, after: int = 0, flying: int = 50_000
    ) -> int:
        """A report of `size` bytes; returns by how much the window changed."""
        self.now += after
        before = self.cwnd
        self.nscc.on_acked(
            size, BASE + delay, marked=marked, penalty=penalty, in_flight_bytes=flying, now=self.now
        )  # fmt: skip
        return self.cwnd - before


class TestProfile:
    def test_on_the_reference_network(self) -> None:
        profile = NsccProfile.derive(MrcConfig(), FABRIC)
        assert (profile.base_rtt, profile.target_delay, profile.max_cwnd) == (BASE, TARGET, 225_000)
        assert (profile.fi, profile.fi_scale, profile.eta) == pytest.approx((1.25 * MTU, 0.25, 0.15 * MTU))
        assert profile.alpha == pytest.approx(4 * 0.75 * MTU / TARGET)
        assert (profile.gamma, profile.max_md_jump, profile.qa_gate, profile.qa_threshold) == (0.8, 0.5, 3, None)
        assert (profile.adjust_bytes_threshold, profile.adjust_period_threshold) == (8 * MTU, BASE)

    def test_without_trimming_the_delay_alone_has_to_tell(self) -> None:
        profile = NsccProfile.derive(MrcConfig(trimming=False), FABRIC)
        assert (profile.target_delay, profile.qa_threshold) == (BASE, 4 * BASE)

    def test_eight_planes_are_eight_times_the_bandwidth(self) -> None:
        one, eight = (NsccProfile.derive(MrcConfig(), Fabric(planes, MTU)) for planes in (1, 8))
        for name in ("max_cwnd", "fi", "fi_scale", "eta", "alpha"):
            assert getattr(eight, name) == pytest.approx(8 * getattr(one, name)), name
        assert eight.target_delay == one.target_delay

    def test_dilation_stretches_times_and_no_bytes(self) -> None:
        real, slow = (NsccProfile.derive(MrcConfig.dilated(dilation), FABRIC) for dilation in (1, 5000))
        assert (slow.base_rtt, slow.target_delay) == (5000 * real.base_rtt, 5000 * real.target_delay)
        assert (slow.max_cwnd, slow.fi, slow.eta) == (real.max_cwnd, real.fi, real.eta)
        assert slow.alpha == pytest.approx(real.alpha / 5000)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"gama": 1}, "NSCC has no setting gama; it has .*gamma"),
            ({"gamma": 0}, "gamma is 0; it has to be above 0 and at most 1"),
            ({"max_md_jump": 1.5}, "max_md_jump is 1.5"),
            ({"max_cwnd": 0}, "max_cwnd is 0; it has to be at least 1"),
            ({"target_delay": 0}, "target_delay is 0"),
            ({"qa_gate": -1}, r"qa_gate is -1; it has to be in 0\.\.63"),
            ({"qa_gate": 2.5}, "qa_gate has to be a whole number, not 2.5"),
            ({"max_cwnd": 1e308}, "max_cwnd has to be a whole number"),
            ({"base_rtt": 10**400}, r"base_rtt is 1000\d*; it has to be in 0"),
            ({"fi": -1.0}, r"fi is -1.0; it has to be in 0"),
            ({"eta": 1e300}, r"eta is 1e\+300; it has to be in 0"),
            ({"eta": float("nan")}, "eta is nan"),
            ({"gamma": True}, "gamma has to be a number, not True"),
            ({"disable_qa": 3}, "disable_qa has to be true or false, not 3"),
        ],
    )
    def test_refused(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Nscc(MrcConfig(congestion_settings=settings), FABRIC)


def test_it_starts_with_the_largest_window() -> None:
    assert Nscc(MrcConfig(), FABRIC).window_bytes == 225_000


class TestNoMark:
    def test_below_the_target_the_increase_is_proportional_to_what_is_missing(self) -> None:
        grown = []
        for delay in (TARGET // 3, 2 * TARGET // 3):
            window = Window(cwnd=80_000)
            grown.append(window.ack(9 * MTU, delay))  # more than adjust_bytes_threshold: applied at once
        alpha = 4 * 0.75 * MTU / TARGET
        assert grown[0] == pytest.approx(alpha * 9 * MTU * (TARGET - TARGET // 3) / 80_000, abs=1)
        assert grown[0] == pytest.approx(2 * grown[1], abs=2)

    def test_at_the_target_the_increase_is_fair(self) -> None:
        for delay in (TARGET, 3 * TARGET):
            window = Window(cwnd=80_000)
            assert window.ack(9 * MTU, delay) == pytest.approx(1.25 * MTU * 9 * MTU / 80_000, abs=1)

    def test_a_small_window_grows_by_a_larger_part_of_itself(self) -> None:
        small, large = Window(cwnd=20_000), Window(cwnd=80_000)
        assert small.ack(9 * MTU, TARGET) == pytest.approx(4 * large.ack(9 * MTU, TARGET), abs=4)

    def test_increases_wait_for_enough_bytes(self) -> None:
        window = Window(cwnd=80_000)
        assert window.ack(8 * MTU - 1, TARGET) == 0
        assert window.ack(MTU, TARGET) == pytest.approx(1.25 * MTU * (9 * MTU - 1) / 80_000, abs=1)

    def test_or_for_a_period_which_brings_eta(self) -> None:
        window = Window(cwnd=80_000)
        assert window.ack(1, TARGET, after=BASE - 1) == 0
        assert window.ack(1, TARGET, after=1) == pytest.approx(0.15 * MTU + 1.25 * MTU * 2 / 80_000, abs=2)
        assert window.ack(1, TARGET, after=BASE - 1) == 0

    def test_a_whole_window_on_empty_paths_makes_it_grow_fast(self) -> None:
        window = Window(cwnd=40_000, alpha=0)
        for _ in range(40_000 // MTU):
            assert window.ack(MTU, 0) == 0
        assert window.ack(MTU, 0) == pytest.approx(0.25 * MTU, abs=1)
        assert window.ack(MTU, 0) == pytest.approx(0.25 * MTU, abs=1)
        window.ack(MTU, 2 * US)  # a queue, and it is over
        assert window.ack(MTU, 0) == 0

    def test_and_goes_on_though_the_window_grows_faster_than_what_is_acknowledged(self) -> None:
        window = Window(cwnd=40_000, alpha=0, fi_scale=2)
        window.ack(41_000, 0)
        for _ in range(5):
            assert window.ack(MTU, 0) == 2 * MTU

    def test_never_above_the_maximum(self) -> None:
        window = Window()
        for _ in range(100):
            window.ack(9 * MTU, 0)
        assert window.cwnd == 225_000


class TestMark:
    def window(self, cwnd: int = 80_000) -> Window:
        """One that grows by nothing of itself."""
        return Window(cwnd, eta=0)

    def test_below_the_target_nothing_happens(self) -> None:
        window = self.window()
        for _ in range(20):
            assert window.ack(MTU, TARGET - 1, marked=True, after=100) == 0

    def test_nor_for_a_packet_that_waited_less_while_others_waited_long(self) -> None:
        window = self.window()
        window.ack(1, 3 * TARGET, after=BASE)
        before = window.cwnd
        assert window.nscc.average_delay_ns > TARGET
        assert window.ack(1, TARGET - 1, marked=True, after=1) == 0 and window.cwnd == before

    def test_above_the_target_it_shrinks_by_how_far(self) -> None:
        window = self.window()
        window.ack(1, 2 * TARGET, marked=True, after=BASE)  # a round trip later the average is this delay
        assert window.cwnd == pytest.approx(80_000 * (1 - 0.8 * 0.5), abs=1)

    def test_never_by_more_than_half_at_once(self) -> None:
        window = self.window()
        window.ack(1, 100 * TARGET, marked=True, after=BASE)
        assert window.cwnd == 40_000

    def test_once_in_a_base_round_trip(self) -> None:
        window = self.window()
        assert window.ack(1, 2 * TARGET, marked=True, after=BASE) < 0
        assert window.ack(1, 2 * TARGET, marked=True, after=BASE) == 0
        assert window.ack(1, 2 * TARGET, marked=True, after=1) < 0

    def test_not_while_the_average_is_below_the_target(self) -> None:
        window = self.window()
        assert window.ack(1, 2 * TARGET, marked=True, after=BASE // 10) == 0, "one late packet is no full fabric"

    def test_never_below_a_packet(self) -> None:
        window = self.window(2 * MTU)
        for _ in range(10):
            window.ack(1, 10 * TARGET, marked=True, after=2 * BASE)
        assert window.cwnd == MTU


class TestLossAndTrim:
    def test_a_loss_takes_its_bytes_and_leaves_a_packet(self) -> None:
        window = Window(cwnd=80_000)
        window.nscc.on_lost(MTU, window.now)
        assert window.cwnd == 80_000 - MTU
        for _ in range(30):
            window.nscc.on_lost(MTU, window.now)
        assert window.cwnd == MTU

    def test_a_trim_takes_its_bytes_and_the_first_of_a_round_trip_a_quarter(self) -> None:
        window = Window(cwnd=80_000)
        for _ in range(3):
            window.nscc.on_trimmed(MTU, BASE, in_flight_bytes=0, now=window.now)
        assert window.cwnd == 60_000 - 2 * MTU
        window.now += 2 * BASE  # and the queueing delay that a trimmed packet stands for
        window.nscc.on_trimmed(MTU, BASE, in_flight_bytes=0, now=window.now + 1)
        assert window.cwnd == pytest.approx((60_000 - 2 * MTU) * 3 / 4, abs=1)

    def test_of_a_small_window_a_trim_takes_its_bytes(self) -> None:
        window = Window(cwnd=MTU * 3 // 2)
        window.nscc.on_trimmed(MTU, BASE, in_flight_bytes=0, now=window.now)
        assert window.cwnd == MTU, "and never less than a packet"

    def test_a_round_trip_is_one_with_its_queueing_delay(self) -> None:
        window = Window(cwnd=80_000)
        window.ack(1, BASE, after=BASE)
        first = window.cwnd
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now)
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now + 2 * BASE)
        assert window.cwnd == pytest.approx(first * 3 / 4 - MTU, abs=1)

    def test_a_trim_counts_as_a_delay_of_a_base_round_trip(self) -> None:
        window = Window()
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now + BASE)
        assert window.nscc.average_delay_ns == BASE

    def quick(self, achieved: int, **settings: Any) -> Window:
        """A window in whose last quick-adapt period so much has arrived; the next signal ends the period."""
        window = Window(disable_qa=False, **settings)
        window.ack(achieved - 1, TARGET, after=1)  # the period began with the first byte
        window.now += BASE + TARGET
        return window

    def test_quick_adapt_sets_it_to_what_arrived(self) -> None:
        window = self.quick(20_000)
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=90_000, now=window.now)
        assert window.cwnd == pytest.approx(20_000, abs=1)

    def test_not_when_much_arrived(self) -> None:
        window = self.quick((225_000 >> 3) + 1)
        before = window.cwnd
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=90_000, now=window.now)
        assert window.cwnd == before * 3 // 4

    def test_what_flew_then_is_not_counted_a_second_time(self) -> None:
        window = self.quick(20_000)
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=2 * MTU, now=window.now)
        adapted = window.cwnd
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=MTU, now=window.now)
        assert window.cwnd == adapted
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now)
        assert window.cwnd == adapted * 3 // 4

    def test_not_when_the_window_is_no_more_than_twice_that_already(self) -> None:
        window = self.quick(20_000)
        window.nscc.on_lost(window.cwnd - 39_000, window.now)
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now)
        assert window.cwnd == 39_000 * 3 // 4

    def test_what_arrived_in_earlier_periods_is_forgotten(self) -> None:
        window = self.quick(200_000)
        window.ack(1, TARGET)  # ends the period
        window.ack(20_000, TARGET)
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now + BASE + TARGET)
        assert window.cwnd == pytest.approx(20_000, abs=1)

    def test_a_period_is_as_long_as_round_trips_are_now(self) -> None:
        window = self.quick(200_000)
        window.ack(1, 3 * TARGET)  # ends the period, and is the average delay
        window.ack(20_000, 3 * TARGET)
        before = window.cwnd
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now + BASE + 3 * TARGET - 1)
        assert window.cwnd == pytest.approx(before * 3 / 4, abs=1)
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now + BASE + 3 * TARGET)
        assert window.cwnd == pytest.approx(20_000, abs=1)

    def test_one_trim_calls_for_it_once(self) -> None:
        window = self.quick(20_000)
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now)
        assert window.ack(1, TARGET, after=2 * BASE + TARGET) > 0

    def test_increases_gathered_before_it_are_gone(self) -> None:
        window = self.quick(20_000, eta=0)
        window.nscc.on_trimmed(MTU, None, in_flight_bytes=0, now=window.now)
        assert window.ack(9 * MTU, TARGET) == pytest.approx(1.25 * MTU * 9 * MTU / 20_000, abs=2)

    def test_by_delay_only_where_packets_are_not_trimmed(self) -> None:
        window = self.quick(20_000)
        window.ack(1, 5 * BASE)
        assert window.cwnd > 200_000
        window = self.quick(20_000, qa_threshold=4 * BASE)
        window.ack(1, 5 * BASE)
        assert window.cwnd == pytest.approx(20_000, abs=1)


class TestReceiver:
    def test_a_penalty_shrinks_it_by_128ths_of_what_arrived(self) -> None:
        window = Window(cwnd=80_000)
        assert window.ack(128 * 10, 0, penalty=32, flying=90_000) == -320

    def test_and_never_leaves_more_than_flies(self) -> None:
        window = Window(cwnd=80_000)
        window.ack(128, 0, penalty=1, flying=30_000)
        assert window.cwnd == 30_000 - 1

    def test_and_holds_increases_back(self) -> None:
        window = Window(cwnd=80_000)
        assert window.ack(9 * MTU, 2 * US, penalty=1, flying=90_000) == -(9 * MTU >> 7)


def test_a_packet_sent_twice_says_nothing_about_delays_and_is_judged_by_their_average() -> None:
    window = Window(cwnd=80_000)
    window.ack(1, 2 * TARGET, after=BASE)
    average = window.nscc.average_delay_ns
    assert average == 2 * TARGET
    before = window.cwnd
    window.nscc.on_acked(9 * MTU, None, marked=False, penalty=0, in_flight_bytes=0, now=window.now)
    assert window.cwnd - before == pytest.approx(1.25 * MTU * 9 * MTU / before, abs=2), "fair increase"
    window.nscc.on_acked(1, None, marked=True, penalty=0, in_flight_bytes=0, now=window.now)
    assert window.cwnd < before
    assert (window.nscc.base_rtt_ns, window.nscc.average_delay_ns) == (BASE, average)


def test_the_shortest_round_trip_is_the_base() -> None:
    window = Window()
    window.ack(1, -5 * US)
    assert window.nscc.base_rtt_ns == 7 * US
    window.ack(1, 0)
    assert window.nscc.base_rtt_ns == 7 * US
    window.nscc.on_trimmed(MTU, 6 * US, in_flight_bytes=0, now=window.now)
    assert window.nscc.base_rtt_ns == 6 * US
