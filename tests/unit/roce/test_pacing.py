"""What marks do to a queue pair: CNPs go back, the sender slows down and recovers. Ratios and counts, no speeds."""

from __future__ import annotations

import itertools

import pytest

from agents.roce.config import RoceConfig
from agents.transport import ImmediateReceived
from agents.wire import dscp
from agents.wire.headers import Cnp
from agents.wire.packet import Packet, RcWrite
from tests.unit.mrc.scripted import US
from tests.unit.roce.scripted import RocePair

CONTENT = bytes(1 << 20)  # 256 packets, 85 us at line rate


def marked_pair(profile: str, marks_until_ns: int) -> tuple[RocePair, list[int]]:
    """A transfer whose data packets carry CE until then, and the times at which they were taken in."""
    pair = RocePair(dcqcn=profile)
    taken: list[int] = []
    real = pair.qps[1].receive

    def receive(port: int, packet: Packet, now: int) -> None:
        if isinstance(packet.body, RcWrite):
            taken.append(now)
            packet.ecn = dscp.CE if now < marks_until_ns else packet.ecn
        real(port, packet, now)

    pair.qps[1].receive = receive  # type: ignore[method-assign]
    region = pair.nics[1].register_memory(len(CONTENT))
    pair.post(CONTENT, region, immediate=1)
    return pair, taken


def test_without_marks_it_keeps_to_the_line_rate() -> None:
    pair, taken = marked_pair("published", marks_until_ns=0)
    pair.run()
    gap_ns = (taken[-1] - taken[0]) / (len(taken) - 1)
    assert gap_ns == pytest.approx((4096 + 40 + 40 + 8 + 12 + 4) * 8 / 100, rel=0.02), "100 Gb/s, headers included"
    assert not pair.sent(Cnp, host=1)


@pytest.mark.parametrize(("profile", "interval_ns"), [("published", 50 * US), ("vendor", 4 * US)])
def test_cnps_go_back_at_most_once_an_interval(profile: str, interval_ns: int) -> None:
    pair, taken = marked_pair(profile, marks_until_ns=10**9)
    pair.run(400 * US)
    cnps = pair.qps[1].counters.cnps_sent
    assert 2 <= cnps <= (taken[-1] - taken[0]) // interval_ns + 1
    assert pair.qps[0].counters.cnps_received == cnps == len(pair.sent(Cnp, host=1))
    assert pair.qps[1].counters.packets_marked == len(taken)


def test_marks_halve_the_rate_and_it_comes_back_when_they_end() -> None:
    pair, taken = marked_pair("published", marks_until_ns=10 * US)
    pair.run()
    assert pair.of_kind(ImmediateReceived, host=1)
    gaps = [after - before for before, after in itertools.pairwise(taken)]
    line = min(gaps)
    slow = [gap for gap in gaps if gap > 1.8 * line]
    assert len(slow) > 20, "half of the line rate for a while"
    assert max(gaps) < 2.2 * line, "one CNP, one cut"
    assert gaps[-1] < 1.3 * line, "fast recovery has begun"


def test_an_idle_sender_wants_no_timer() -> None:
    pair, _ = marked_pair("published", marks_until_ns=10 * US)
    pair.run()
    assert pair.qps[0].rate_bps < 100e9
    assert pair.nics[0].next_timer() is None


def test_settings_that_cannot_work_are_refused() -> None:
    for wrong, message in (
        ({"retry_count": 8}, "0..7"),
        ({"timeout_exponent": 32}, "0..31"),
        ({"ack_interval_packets": 0}, "at least 1"),
        ({"start_psn": 1 << 24}, "24 bits"),
        ({"dcqcn": "none"}, "there are: published"),
    ):
        with pytest.raises(ValueError, match=message):
            RoceConfig.dilated(1, **wrong)  # type: ignore[arg-type]


def test_times_grow_with_the_dilation_and_rates_shrink() -> None:
    slow = RoceConfig.dilated(5000, link_bps=100_000_000_000)
    assert slow.timeout_ns == 5000 * 4096 << 6
    assert slow.parameters.for_link_bps == 20_000_000
