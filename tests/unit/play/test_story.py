"""What a play did, from ansible-runner's events."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.play.story import Done, Story


def told(kind: str, result: dict[str, Any] | None = None, **data: Any) -> Done:
    """What a story makes of one event about a task on host `a`."""
    done = Story().take({"event": kind, "event_data": {"host": "a", "task": "t", "res": result or {}, **data}})
    assert done is not None
    return done


def failed_verb(code: int) -> dict[str, Any]:
    return {"cmd": ["/opt/mrclab/mrclab", "run", "x"], "rc": code, "stderr": "mrclab: why"}


@pytest.mark.parametrize(
    ("kind", "result", "data", "state"),
    [
        ("runner_on_ok", {"changed": False}, {}, "ok"),
        ("runner_on_ok", {"changed": True}, {}, "changed"),
        ("runner_on_skipped", {}, {}, "skipped"),
        ("runner_on_failed", {"msg": "no"}, {}, "failed"),
        ("runner_on_failed", {"msg": "no"}, {"ignore_errors": True}, "ignored"),
        ("runner_on_unreachable", {"msg": "no route"}, {}, "unreachable"),
    ],
)
def test_states(kind: str, result: dict[str, Any], data: dict[str, Any], state: str) -> None:
    assert told(kind, result, **data).state == state


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_a_verb_that_failed_gives_its_exit_code(code: int) -> None:
    done = told("runner_on_failed", failed_verb(code))
    assert (done.code, done.message) == (code, "mrclab: why")


@pytest.mark.parametrize(
    ("result", "data", "code"),
    [
        ({"cmd": ["/usr/bin/false"], "rc": 1}, {}, 4),  # of another program
        (failed_verb(130), {}, 4),  # of no verb's contract
        ({"cmd": "mrclab run x", "rc": 1}, {}, 4),  # a shell's
        ({"msg": "no"}, {}, 4),
        ({"msg": "no"}, {"task_action": "ansible.builtin.validate_argument_spec"}, 2),
        (failed_verb(1), {"ignore_errors": True}, 0),
    ],
)
def test_other_failures(result: dict[str, Any], data: dict[str, Any], code: int) -> None:
    assert told("runner_on_failed", result, **data).code == code


def test_a_loop_says_each_reason_once() -> None:
    items = [{"failed": True, "msg": "a"}, {"failed": False, "msg": "b"}, {"failed": True, "msg": "a"}]
    assert told("runner_on_failed", {"msg": "One or more items failed", "results": items}).message == "a"


def test_long_words_are_cut_at_their_beginning() -> None:
    message = told("runner_on_failed", {"stderr": "x" * 9000 + " the reason"}).message
    assert len(message) < 2100 and message.endswith("the reason")


def test_counts_and_settings_that_are_right() -> None:
    story = Story()
    events: list[tuple[str, str, dict[str, Any]]] = [
        ("runner_on_ok", "a", {"changed": True}), ("runner_on_ok", "a", {}), ("runner_on_unreachable", "b", {}),
    ]  # fmt: skip
    for kind, host, result in events:
        story.take({"event": kind, "event_data": {"host": host, "task": "t", "res": result}})
    checks = {"host": "a", "task": "Validating", "task_action": "ansible.builtin.validate_argument_spec"}
    assert story.take({"event": "runner_on_ok", "event_data": checks}) is None
    assert story.take({"event": "verbose"}) is None
    assert story.hosts == {"a": {"changed": 1, "ok": 1}, "b": {"unreachable": 1}}
    assert [one.host for one in story.unreachable] == ["b"]
