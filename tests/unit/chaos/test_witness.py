"""The witness tells each coming and going of a fault once, whoever did it, and which faults a run had."""

from pathlib import Path

import pytest

from testbed.chaos.journal import Journal
from testbed.chaos.witness import Witness
from testbed.measure.record import Fault, FaultActed
from testbed.measure.recorder import Recorder
from tests.unit.measure import handmade
from tests.unit.measure.handmade import LINK, NIC_LINK, ns


def put(journal: Journal, target: str, at_s: float, by: str = "run") -> int:
    number = journal.put(Fault(0, "link-down", target, "near", ns(at_s), ns(at_s), by=by), [None])
    journal.acted(number, ns(at_s), ns(at_s + 0.001))
    return number


def undo(journal: Journal, number: int, at_s: float) -> None:
    journal.undo(number, ns(at_s))
    journal.undone(number, ns(at_s), ns(at_s + 0.001))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def test_each_change_is_told_once_and_recorded(journal: Journal, tmp_path: Path) -> None:
    run = handmade.run()
    with Recorder(run, tmp_path) as recorder:
        witness = Witness(journal, recorder)
        assert witness.look() == []
        number = put(journal, LINK, 2)
        assert witness.look() == [FaultActed(ns(2), 1, "link-down", LINK, "near", True, ns(2.001))]
        assert witness.look() == []
        undo(journal, number, 3)
        assert [event.t_ns for event in witness.look()] == [ns(3)]
    assert [(type(event), event.t_ns) for event in run.events] == [(FaultActed, ns(2)), (FaultActed, ns(3))]


def test_a_fault_from_before_that_still_lasts_is_the_runs_too_and_one_that_is_over_is_not(
    journal: Journal, tmp_path: Path
) -> None:
    undo(journal, put(journal, LINK, -5), -4)
    put(journal, NIC_LINK, -3, by="hand")
    run = handmade.run()
    with Recorder(run, tmp_path) as recorder:
        witness = Witness(journal, recorder)
        events = witness.look()
        assert [event.target for event in events if isinstance(event, FaultActed)] == [NIC_LINK]
        put(journal, LINK, 100)  # when the traffic has ended
        assert [fault.target for fault in witness.faults_during(run)] == [NIC_LINK]
