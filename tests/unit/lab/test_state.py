"""What is recorded of a lab comes back as it was, and what cannot be read is said in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.lab import state
from testbed.lab.state import LabState
from testbed.topology import library
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(state, "STATE_ROOT", tmp_path)
    return tmp_path


def recorded(name: str, **fields: object) -> LabState:
    spec = load_lab("demo").model_copy(update={"name": name})
    made = LabState(spec, f"/labs/{name}.yaml", **fields)  # type: ignore[arg-type]
    made.directory.mkdir()
    made.save()
    return made


@pytest.mark.parametrize("topology", library.names("topologies"))
def test_every_topology_survives_the_record(topology: str, root: Path) -> None:
    made = LabState(load_lab(topology), "/labs/x.yaml", namespaces=["x.h0"], agents={"h0": 12}, programs=[7])
    made.directory.mkdir()
    made.save()
    assert state.load(topology) == made


def test_a_save_replaces_the_file_as_a_whole(root: Path) -> None:
    made = recorded("one")
    made.phase = "up"
    made.save()
    assert state.require_up("one").phase == "up"
    assert [path.name for path in (root / "one").iterdir()] == ["state.json"]


def test_labs_that_are_there_are_listed(root: Path) -> None:
    recorded("two")
    recorded("one")
    (root / "no-lab").mkdir()
    assert state.names() == ["one", "two"]


def test_forgetting_removes_all_files(root: Path) -> None:
    made = recorded("one")
    (made.directory / "agents").mkdir()
    (made.directory / "agents" / "h0.log").write_text("words")
    state.forget("one")
    assert list(root.iterdir()) == []
    assert state.load("one") is None


def test_a_lab_that_is_not_there_is_refused_with_the_nearest(root: Path) -> None:
    recorded("demo", phase="up")
    with pytest.raises(InputError, match=r"lab dmeo is not up; did you mean 'demo'\?"):
        state.known("dmeo")
    with pytest.raises(InputError, match="lab zzz is not up; up: demo"):
        state.require_up("zzz")


def test_a_lab_half_made_is_not_up(root: Path) -> None:
    recorded("half")
    assert state.known("half").phase == "making"
    with pytest.raises(InputError, match=r"lab half is only half there \(making\); remove the rest: mrclab down half"):
        state.require_up("half")


@pytest.mark.parametrize(
    "damage",
    [lambda text: text[:40], lambda text: "[]", lambda text: "{}", lambda text: text.replace("planes", "plan")],
)
def test_a_damaged_file_says_where_it_is(root: Path, damage: Callable[[str], str]) -> None:
    path = recorded("one").directory / "state.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError, match="the state of lab one is damaged"):
        state.load("one")


def test_the_record_of_another_version_is_left_alone(root: Path) -> None:
    path = recorded("one").directory / "state.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "schema_version": 99}))
    with pytest.raises(InputError, match="made by another version of mrclab"):
        state.load("one")


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "/etc", "labs/demo.yaml", "demo\n", "Demo", "d" * 16])
def test_what_is_no_name_leads_nowhere(name: str, root: Path) -> None:
    other = root.parent / "other"
    other.mkdir(exist_ok=True)
    for act in (state.directory, state.load, state.known, state.forget):
        with pytest.raises(InputError, match="is not the name of a lab"):
            act(name)
    assert root.exists() and other.exists()


def test_a_file_instead_of_a_name_is_told_the_name() -> None:
    with pytest.raises(InputError, match=r"did you mean 'tiny'\?"):
        state.known("topologies/tiny.yaml")
