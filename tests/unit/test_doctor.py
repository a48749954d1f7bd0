"""What the doctor says of machines that lack something, and that each lack comes with the command that mends it."""

from __future__ import annotations

import platform
import resource
from pathlib import Path

import pytest

from testbed import doctor, scratch
from testbed.doctor import Row
from testbed.topology.errors import MissingError


def rows(look: doctor.Look) -> dict[str, Row]:
    return {row.name: row for row in look()}


def test_programs_are_looked_for_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clang = tmp_path / "clang"
    clang.write_text("#!/bin/sh\n")
    clang.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = rows(doctor.programs)
    assert (found["clang"].state, found["clang"].found) == ("OK", str(clang))
    assert (found["mnexec"].state, found["mnexec"].fix) == ("missing", "apt-get install mininet")


def test_all_lacks_of_one_kind_are_told_at_once_with_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(doctor.NEEDS, "up", (doctor.programs, doctor.features))
    with pytest.raises(MissingError) as refused:
        doctor.require("up")
    assert refused.value.exit_code == 3
    assert str(refused.value).startswith("clang is missing: not found (also missing: ")
    packages = refused.value.fix.removeprefix("apt-get install ").split()
    assert {"clang", "mininet", "iputils-ping"} <= set(packages)


def test_each_package_of_a_lab_is_a_need_and_none_of_the_tests() -> None:
    text = doctor.PACKAGES_FILE.read_text()
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    fixes = {row.fix for row in doctor.programs()}
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
    (row,) = doctor.kernel()
    assert row.state == state and release in row.found and "6.1" in row.fix


@pytest.mark.parametrize(
    ("hard", "state"), [(256, "degraded"), (4096, "OK"), (resource.RLIM_INFINITY, "OK")], ids=["256", "4096", "any"]
)
def test_few_open_files_are_a_warning(monkeypatch: pytest.MonkeyPatch, hard: int, state: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, hard))
    assert [row.state for row in doctor.open_files()] == [state]


def test_optional_packages_only_degrade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "OPTIONAL_MODULES", {"no_such_module": "nothing"})
    found = rows(doctor.modules)
    assert (found["Python's no_such_module"].state, found["Python packages"].state) == ("degraded", "OK")


def test_a_missing_package_of_the_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "REQUIRED_MODULES", ("click", "no_such_module"))
    row = rows(doctor.modules)["Python packages"]
    assert (row.state, row.found) == ("missing", "without no_such_module")
    assert "pip install -r requirements.lock" in row.fix


def test_every_feature_that_is_tried_is_a_need_with_a_purpose_and_a_fix() -> None:
    assert list(doctor._FEATURE_NEEDS) == list(scratch.FEATURES)


def test_verbs_that_need_nothing_are_never_refused() -> None:
    for verb in ("validate", "graph", "doctor"):
        assert doctor.checks(verb) == []
        doctor.require(verb)


def test_every_row_says_what_for_and_how_to_mend_it() -> None:
    for row in doctor.checks("up"):
        assert row.found and row.purpose and row.fix
        assert set(row.as_dict()) == {"name", "state", "found", "purpose", "fix"}
