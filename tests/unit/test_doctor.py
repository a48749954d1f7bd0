"""What the doctor says of machines that lack something, and that each lack comes with the command that mends it."""

from __future__ import annotations

import platform
import re
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from agents import compiled
from testbed import doctor, scratch
from testbed.doctor import Row, limits, mend, software, system
from testbed.topology.errors import MissingError


def rows(look: doctor.Look) -> dict[str, Row]:
    return {row.name: row for row in look()}


def test_programs_are_looked_for_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clang = tmp_path / "clang"
    clang.write_text("#!/bin/sh\n")
    clang.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = rows(software.programs)
    assert (found["clang"].state, found["clang"].found) == ("OK", str(clang))
    assert (found["mnexec"].state, found["mnexec"].fix) == ("missing", "apt-get install mininet")


def test_all_lacks_of_one_kind_are_told_at_once_with_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(doctor.NEEDS, "up", (software.programs, system.features))
    with pytest.raises(MissingError) as refused:
        doctor.require("up")
    assert refused.value.exit_code == 3
    assert str(refused.value).startswith("clang is missing: not found (also missing: ")
    packages = refused.value.fix.removeprefix("apt-get install ").split()
    assert {"clang", "mininet", "iputils-ping"} <= set(packages)


def test_each_package_of_a_lab_is_a_need_and_none_of_the_tests() -> None:
    text = software.PACKAGES_FILE.read_text()
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    fixes = {row.fix for row in software.programs()}
    assert fixes == {f"apt-get install {package}" for package, need, *_ in lines if need == "lab"}


@pytest.mark.parametrize(
    ("release", "state"),
    [
        ("5.15.0-91-generic", "missing"),
        ("6.1.0-18-amd64", "OK"),
        ("6.18.44", "OK"),
        ("10.0-rc1", "OK"),
        ("?", "missing"),
    ],
)
def test_kernels_from_6_1_on_will_do(monkeypatch: pytest.MonkeyPatch, release: str, state: str) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    (row,) = system.kernel()
    assert row.state == state and release in row.found and "6.1" in row.fix


@pytest.mark.parametrize(
    ("hard", "state"), [(256, "degraded"), (4096, "OK"), (resource.RLIM_INFINITY, "OK")], ids=["256", "4096", "any"]
)
def test_few_open_files_are_a_warning(monkeypatch: pytest.MonkeyPatch, hard: int, state: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, hard))
    assert [row.state for row in limits.open_files()] == [state]


def test_optional_packages_only_degrade() -> None:
    wanted = {"no_such_module": ("nothing", "fast")}
    assert [row.state for row in software.modules_for(wanted, "degraded")()] == ["degraded"]
    assert [row.state for row in software.modules_for(wanted)()] == ["missing"]


def test_agents_that_are_not_compiled_are_only_slower(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiled, "builds", lambda: tmp_path)
    (row,) = software.compiled_agents()
    assert (row.state, row.found) == ("degraded", "plain Python")
    folder = compiled.build_folder()
    folder.mkdir()
    (folder / compiled.DONE).touch()
    assert [row.state for row in software.compiled_agents()] == ["OK"]


def test_a_missing_package_of_the_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "REQUIRED_MODULES", ("click", "no_such_module"))
    row = rows(software.modules)["Python packages"]
    assert (row.state, row.found) == ("missing", "without no_such_module")
    assert re.search(r"pip install -r \S*requirements.lock$", row.fix)


def test_every_feature_that_is_tried_is_a_need_with_a_purpose_and_a_fix() -> None:
    assert list(system.FEATURE_NEEDS) == list(scratch.FEATURES)


def test_verbs_that_need_nothing_are_never_refused() -> None:
    for verb in ("validate", "graph", "doctor"):
        assert doctor.checks(verb) == []
        doctor.require(verb)


def test_every_row_says_what_for_and_how_to_mend_it() -> None:
    for row in doctor.checks():
        assert row.found and row.purpose and row.fix and row.verbs
        assert set(row.as_dict()) == {"name", "state", "found", "purpose", "fix", "verbs"}


def machine(top: Path, **files: str) -> Path:
    """A folder that stands for /: the kernel's own files of another machine. Names with __ for /, _ stays."""
    for name, text in files.items():
        path = top / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return top


def test_the_limit_of_a_control_group_counts_when_it_is_lower(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/user/lab"
    group.mkdir(parents=True)
    monkeypatch.setattr(limits, "TOP", machine(tmp_path, proc__meminfo="MemAvailable: 4194304 kB\n"))
    assert [(row.state, row.found) for row in limits.memory()] == [("OK", "4096 MB")]
    machine(tmp_path, proc__self__cgroup="0::/user/lab\n")
    for limit, used, folder in (("max", "1", group), (str(300 << 20), str(100 << 20), group.parent)):
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text(used)
    assert [(row.state, row.found) for row in limits.memory()] == [("degraded", "200 MB left to this control group")]
    (group / "pids.max").write_text("100")
    (group / "pids.current").write_text("40")
    assert [(row.state, row.found) for row in limits.processes()] == [("degraded", "at most 60")]


def test_a_machine_without_ipv6_or_with_a_slow_clock_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = {"sys__devices__system__clocksource__clocksource0__current_clocksource": "hpet\n"}
    monkeypatch.setattr(limits, "TOP", machine(tmp_path, proc__sys__user__max_net_namespaces="0", **clock))
    assert {row.name: row.state for row in limits.settings()} == {
        "IPv6": "missing", "user.max_net_namespaces": "degraded",
    }  # fmt: skip
    assert [(row.state, row.found) for row in limits.clock()] == [("degraded", "hpet")]


def test_one_processor_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert [row.state for row in limits.processors()] == ["degraded"]


def lacking(name: str, state: Any, fix: str) -> Row:
    return Row(name, state, "not found", "something", fix)


def test_fixes_are_commands_with_packages_together_and_words_are_left_to_people() -> None:
    rows = [
        lacking("root", "missing", "run it as root"),
        lacking("a", "missing", "apt-get install a"),
        lacking("b", "degraded", "modprobe b"),
        lacking("c", "missing", "apt-get install c"),
        lacking("d", "OK", "apt-get install d"),
        lacking("e", "degraded", "modprobe b"),
    ]
    install = ["apt-get", "install", "a", "c", "-y", "--no-install-recommends"]
    assert mend.commands(rows) == [["apt-get", "update"], install, ["modprobe", "b"]]
    assert mend.commands(rows[:1]) == []


def test_what_this_python_is_to_do_is_a_command_wherever_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/a lab/bin/python")
    monkeypatch.setattr(software, "checkout", lambda: Path("/a lab"))
    monkeypatch.setattr(compiled, "is_built", lambda folder: False)
    rows = [*software.modules_for({"no_such_module": ("nothing", "fast")})(), *software.compiled_agents()]
    install = ["/a lab/bin/python", "-m", "pip", "install", "-r", "/a lab/requirements.lock"]
    assert mend.commands(rows) == [install, ["/a lab/bin/python", "-m", "agents.build"]]


def test_a_fix_is_run_only_when_asked_for_and_a_failure_is_told(tmp_path: Path) -> None:
    made, said = tmp_path / "made", list[str]()
    touch = ["touch", str(made)]
    assert not mend.run([touch], lambda command: False, said.append)
    assert not made.exists() and not said
    assert mend.run([touch], lambda command: True, said.append)
    assert made.exists()
    assert not mend.run([["false"], ["no-such-program"]], lambda command: True, said.append)
    assert said[-3:] == ["false ended with 1", "running no-such-program", "no-such-program: No such file or directory"]
