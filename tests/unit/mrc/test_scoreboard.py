"""The sender's scoreboard, against plain sets."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.message import Message
from agents.mrc.ev_set import Ev
from agents.mrc.scoreboard import Fate, Scoreboard, Sent
from agents.transport import Write
from agents.wire import ev as ev_format

MESSAGE = Message(Write(0, memoryview(bytes(100)), 0, 0), 0, 10, 0, 0)


def an_ev(plane: int = 0) -> Ev:
    return Ev(ev_format.make(plane, 0))


def acknowledge(board: Scoreboard, cack: int, base: int = 0, bitmap: int = 0) -> list[Sent]:
    records = board.acknowledge(cack, base, bitmap)
    for record in records:
        record.fate = Fate.ARRIVED
    return records


def test_cumulative_and_selective_acknowledgement() -> None:
    board, ev = Scoreboard(10, 1), an_ev()
    for psn in range(10, 20):
        board.sent(psn, MESSAGE, 100, ev, 0)
    assert [record.psn for record in acknowledge(board, 11, 14, 0b101)] == [10, 11, 14, 16]
    assert board.una == 12 and board.bytes_in_flight == 600 and len(board) == 6
    assert acknowledge(board, 11, 14, 0b101) == [], "the same news is no news"


def test_a_report_from_before_is_harmless() -> None:
    board, ev = Scoreboard(0, 1), an_ev()
    for psn in range(5):
        board.sent(psn, MESSAGE, 1, ev, 0)
    acknowledge(board, 3)
    assert acknowledge(board, 1, 2, 0b11) == [] and board.una == 4


def test_lost_bytes_do_not_fly_until_they_go_again() -> None:
    board, ev = Scoreboard(0, 2), an_ev()
    first = board.sent(0, MESSAGE, 100, ev, 0)
    board.lose(first, blame=True)
    assert board.bytes_in_flight == 0 and len(board) == 1
    second = board.sent(0, MESSAGE, 100, an_ev(1), 5)
    assert board.bytes_in_flight == 100 and second.transmissions == 2 and second.earlier_ev is ev
    assert acknowledge(board, 0) == [second] and board.bytes_in_flight == 0


def test_an_ev_that_is_not_to_blame_is_not_remembered() -> None:
    board = Scoreboard(0, 2)
    board.lose(board.sent(0, MESSAGE, 100, an_ev(), 0), blame=False)
    assert board.sent(0, MESSAGE, 100, an_ev(1), 5).earlier_ev is None


def test_one_that_arrives_after_all_comes_back_as_lost() -> None:
    board = Scoreboard(0, 1)
    record = board.sent(0, MESSAGE, 100, an_ev(), 0)
    board.lose(record, blame=True)
    (news,) = board.acknowledge(0, 1, 0)
    assert news is record and news.fate is Fate.LOST and board.bytes_in_flight == 0


def test_flying_by_plane_oldest_first() -> None:
    board = Scoreboard(0, 2)
    evs = an_ev(0), an_ev(1)
    for psn in range(6):
        board.sent(psn, MESSAGE, 1, evs[psn % 2], psn)
    acknowledge(board, 0, 4, 1)
    assert [record.psn for record in board.flying(0)] == [2]
    assert [record.psn for record in board.flying(1)] == [1, 3, 5]
    oldest = board.oldest(1)
    assert oldest is not None and oldest.psn == 1


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.integers(0, 2**26), st.integers(0, 2**32), st.lists(st.sampled_from("ssslar"), max_size=80))
def test_equals_sets(first: int, seed: int, steps: list[str]) -> None:
    rng = Random(seed)
    board, evs = Scoreboard(first, 3), [an_ev(plane) for plane in range(3)]
    next_psn = first
    arrived: set[int] = set()
    told: set[int] = set()
    flying: dict[int, Sent] = {}
    lost: set[int] = set()
    for step in steps:
        if step == "s":
            for _ in range(rng.choice((1, 1, 30))):  # so that a report is news of more than a machine word of packets
                flying[next_psn] = board.sent(next_psn, MESSAGE, next_psn % 7, rng.choice(evs), 0)
                next_psn += 1
        elif step == "l" and flying:
            psn = rng.choice(sorted(flying))
            board.lose(flying.pop(psn), blame=True)
            lost.add(psn)
        elif step == "a" and lost:
            psn = rng.choice(sorted(lost))
            lost.remove(psn)
            flying[psn] = board.sent(psn, MESSAGE, psn % 7, rng.choice(evs), 0)
        elif step == "r":
            arrived |= {psn for psn in range(first, next_psn) if rng.random() < 0.5}
            cack = first - 1
            while cack + 1 in arrived:
                cack += 1
            base = cack + 1 + 64 * rng.randrange(2)
            bitmap = sum(1 << psn - base for psn in arrived if base <= psn < base + 64)
            news = {record.psn for record in acknowledge(board, cack, base, bitmap)}
            now_told = {psn for psn in arrived if psn <= cack or base <= psn < base + 64}
            assert news == now_told - told
            told |= now_told
            lost -= told
            flying = {psn: record for psn, record in flying.items() if psn not in told}
            assert board.una == cack + 1
        assert board.bytes_in_flight == sum(record.size for record in flying.values())
        assert {record.psn for plane in range(3) for record in board.flying(plane)} == set(flying)
        assert len(board) == len(flying) + len(lost)
