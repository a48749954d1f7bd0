"""What a play did, told from ansible-runner's events: a line for each task on each host, and how it ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any, Literal

State = Literal["ok", "changed", "skipped", "failed", "ignored", "unreachable"]

_STATES: dict[str, State] = {
    "runner_on_ok": "ok",
    "runner_on_skipped": "skipped",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}
_CHECKS_SETTINGS = "validate_argument_spec"
_VERB_CODES = (1, 2, 3, 4)  # the exit codes of mrclab's own verbs
_NOT_AS_IT_HAS_TO_BE = 4
_SAID_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Done:
    """A task on a host. `message` says what went wrong, or what a task was made to say; `code` of a failed one is
    what the whole play exits with."""

    host: str
    role: str
    task: str
    state: State
    seconds: float
    message: str = ""
    code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


@dataclass(slots=True)
class Story:
    """Feed it all events of a play, in order."""

    done: list[Done] = field(default_factory=list)
    hosts: dict[str, dict[str, int]] = field(default_factory=dict)  # host -> how many tasks of which state
    task: str = ""  # that runs now

    def take(self, event: Mapping[str, Any]) -> Done | None:
        """One event of ansible-runner; what it says about a task on a host, when that is what it says."""
        kind, data = event["event"], event.get("event_data", {})
        if kind == "playbook_on_task_start":
            self.task = data.get("name", "")
        if kind not in _STATES:
            return None
        if kind == "runner_on_ok" and data.get("task_action", "").endswith(_CHECKS_SETTINGS):
            return None  # settings that are right are not worth a line
        one = _done(_STATES[kind], data)
        self.done.append(one)
        counts = self.hosts.setdefault(one.host, {})
        counts[one.state] = counts.get(one.state, 0) + 1
        return one

    @property
    def unreachable(self) -> list[Done]:
        """The hosts that could not be reached, with the reason."""
        return [one for one in self.done if one.state == "unreachable"]

    @property
    def failed(self) -> list[Done]:
        """The tasks that ended their host's part."""
        return [one for one in self.done if one.state == "failed"]


def _done(state: State, data: Mapping[str, Any]) -> Done:
    result = data.get("res") or {}
    if state == "failed" and data.get("ignore_errors"):
        state = "ignored"
    elif state == "ok" and result.get("changed"):
        state = "changed"
    said = _message(result) if state in ("failed", "ignored", "unreachable") else ""
    if state == "ok" and data.get("task_action", "").endswith("debug"):
        said = str(result.get("msg", "")).strip()
    return Done(
        host=data.get("host", ""),
        role=data.get("role", ""),
        task=data.get("task", ""),
        state=state,
        seconds=round(float(data.get("duration") or 0.0), 3),
        message=said,
        code=_code(result, data) if state == "failed" else 0,
    )


def _message(result: Mapping[str, Any]) -> str:
    """The words of what failed: of a program those on stderr, else Ansible's own; of a loop each item's once."""
    items = [item for item in result.get("results", []) if item.get("failed")]
    if items:
        return "\n".join(dict.fromkeys(map(_message, items)))
    said = str(result.get("stderr") or result.get("module_stderr") or result.get("msg") or "no reason given").strip()
    return said if len(said) <= _SAID_CHARACTERS else f"... {said[-_SAID_CHARACTERS:]}"


def _code(result: Mapping[str, Any], data: Mapping[str, Any]) -> int:
    """A verb of mrclab that failed on a host gives its own exit code; wrong settings are wrong input."""
    if data.get("task_action", "").endswith(_CHECKS_SETTINGS):
        return 2
    command = result.get("cmd")
    program = command[0] if isinstance(command, list) and command else ""
    if PurePath(str(program)).name == "mrclab" and result.get("rc") in _VERB_CODES:
        return int(result["rc"])
    return _NOT_AS_IT_HAS_TO_BE
