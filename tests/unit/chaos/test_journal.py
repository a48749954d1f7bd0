"""The journal knows what is in, whatever became of the process that put it in."""

import json
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

from testbed.chaos.journal import Journal, MemoryJournal
from testbed.measure.record import Fault


def put(journal: Journal, target: str, end: str, by: str, t_ns: int) -> int:
    return journal.put(Fault(0, "link-down", target, end, t_ns, t_ns, by=by, links=(target,)), [7])


def test_a_fault_is_active_from_before_its_act_until_after_its_undoing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.active() == []
    number = put(journal, "h0:p0t0-0", "near", "run", 100)
    assert [fault.number for fault in journal.active()] == [number]
    journal.acted(number, 110, 120)
    journal.undo(number, 200)
    assert [(fault.since_ns, fault.down_ns, fault.until_ns) for fault in journal.active()] == [(110, 120, None)]
    journal.undone(number, 210, 220)
    assert journal.active() == []
    (fault,) = journal.faults()
    assert (fault.since_ns, fault.down_ns, fault.up_ns, fault.until_ns) == (110, 120, 210, 220)


def test_numbers_go_on_over_processes(tmp_path: Path) -> None:
    assert [put(Journal(tmp_path), "x", "near", "hand", 1) for _ in range(3)] == [1, 2, 3]


def test_a_line_torn_by_a_crash_is_no_fault_and_harms_no_later_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    put(journal, "x", "near", "run", 1)
    whole = journal.path.read_bytes()
    put(journal, "y", "near", "run", 2)
    torn = journal.path.read_bytes()[: len(whole) + 20]
    journal.path.write_bytes(torn)
    for reader in (journal := Journal(tmp_path), Journal(tmp_path)):
        assert [fault.target for fault in reader.faults()] == ["x"]
    put(journal, "z", "near", "run", 3)
    for reader in (journal, Journal(tmp_path)):
        assert [(fault.number, fault.target) for fault in reader.faults()] == [(1, "x"), (2, "z")]


def test_what_another_process_appends_is_seen_at_the_next_look(tmp_path: Path) -> None:
    mine, other = Journal(tmp_path), Journal(tmp_path)
    number = put(mine, "x", "near", "run", 1)
    assert [fault.number for fault in other.active()] == [number]
    other.undone(number, 2, 3)
    assert mine.active() == []
    assert put(mine, "x", "near", "run", 4) == number + 1


def test_the_lines_are_there_when_the_call_returns(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    put(journal, "x", "far", "run", 7)
    (line,) = journal.path.read_text().splitlines()
    assert json.loads(line) == {
        "step": "put",
        "fault": 1,
        "kind": "link-down",
        "target": "x",
        "end": "far",
        "by": "run",
        "links": ["x"],
        "damage": [],
        "options": [],
        "due_ns": None,
        "entry": None,
        "t_ns": 7,
        "before": [7],
    }


def test_what_was_put_in_is_read_as_it_was_with_what_it_found(tmp_path: Path) -> None:
    fault = Fault(
        number=0,
        kind="rate-drop",
        target="x",
        end="both",
        since_ns=5,
        down_ns=5,
        links=("x",),
        damage=(("x", 0.5),),
        options=(("rate", 0.5),),
        due_ns=4,
        entry=2,
    )
    for journal, reader in ((Journal(tmp_path), Journal(tmp_path)), (memory := MemoryJournal(), memory)):
        number = journal.put(fault, [100, "none", None])
        assert reader.faults() == [replace(fault, number=number)]
        assert reader.before(number) == [100, "none", None]


def test_a_journal_in_memory_is_one_as_well() -> None:
    journal = MemoryJournal()
    with journal.locked():
        number = put(journal, "x", "near", "run", 1)
        journal.acted(number, 2, 3)
        assert [fault.number for fault in journal.active()] == [number]
        journal.undo(number, 4, due_ns=4)
        journal.undone(number, 5, 6)
    assert journal.active() == []
    assert [(fault.undo_due_ns, fault.until_ns) for fault in journal.faults()] == [(4, 6)]


def _put_many(folder: Path, count: int) -> None:
    journal = Journal(folder)
    for _ in range(count):
        with journal.locked():
            put(journal, "x", "near", "hand", time.monotonic_ns())


def test_two_processes_never_give_one_number_twice(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_put_many, args=(tmp_path, 20)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert [fault.number for fault in Journal(tmp_path).faults()] == list(range(1, 41))
