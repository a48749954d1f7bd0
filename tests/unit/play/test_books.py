"""Playbooks, inventories and settings by name: what there is is whole, and what there is not is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from testbed.play import books
from testbed.topology import library
from testbed.topology.errors import InputError

FOLDER = library.folder("playbooks")
ROLES = sorted(path.name for path in (FOLDER / "roles").iterdir())


def test_the_playbooks_that_there_are() -> None:
    assert library.names("playbooks") == ["chaos", "collect", "lab-down", "lab-up", "provision"]


@pytest.mark.parametrize("role", ROLES)
def test_every_setting_of_a_role_says_what_it_is_for(role: str) -> None:
    meta, defaults = FOLDER / "roles" / role / "meta", FOLDER / "roles" / role / "defaults" / "main.yaml"
    options = yaml.safe_load((meta / "argument_specs.yaml").read_text())["argument_specs"]["main"]["options"]
    assert all(option["description"] and option["type"] for option in options.values())
    unknown = set(yaml.safe_load(defaults.read_text())) - set(options)
    assert not unknown, f"settings with a default that nobody may set: {unknown}"


def test_every_setting_is_in_the_documentation() -> None:
    text = (FOLDER.parent / "docs" / "vm.md").read_text()
    for name in library.names("playbooks"):
        for option in books.find_book(name).options:
            assert f"`{option}`" in text, f"{name}: {option}"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["lab=tiny"], {"lab": "tiny"}),
        (["seed=7", "settings=[transport.retire_evs=false, load=50%]"],
         {"seed": 7, "settings": ["transport.retire_evs=false", "load=50%"]}),
        (["lab=a=b"], {"lab": "a=b"}),
        (["lab=[half"], {"lab": "[half"}),
        (["ansible_user=debian"], {"ansible_user": "debian"}),
    ],
)  # fmt: skip
def test_settings_are_read_as_yaml(words: list[str], wanted: dict[str, object]) -> None:
    assert books.settings(books.find_book("chaos"), words) == wanted


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["laab=tiny"], "did you mean 'lab'?"),
        (["unheard_of=1"], "it has scenario, scenario_file, lab"),
        (["lab"], "'lab' is not KEY=VALUE"),
        (["=tiny"], "'=tiny' is not KEY=VALUE"),
        (["scenario_file=nowhere.yaml"], "there is no file 'nowhere.yaml'"),
    ],
)
def test_wrong_settings_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(InputError) as refused:
        books.settings(books.find_book("chaos"), words)
    assert said in str(refused.value)


def test_files_are_meant_where_the_person_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    given = books.settings(books.find_book("lab-up"), ["lab_file=mine.yaml"])
    assert given == {"lab_file": str(tmp_path / "mine.yaml")}
    assert books.owner(books.find_book("lab-up"), given) == "mine"


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("lab-up", {}, "demo"),
        ("lab-down", {"lab": "tiny"}, "tiny"),
        ("chaos", {"scenario": "link-flap"}, "link-flap"),
        ("provision", {}, "machine"),
        ("lab-up", {"lab": "../../etc"}, "etc"),
    ],
)
def test_whose_artifacts_they_are(name: str, given: dict[str, str], wanted: str) -> None:
    assert books.owner(books.find_book(name), given) == wanted


def test_inventories_by_name_by_path_and_as_hosts(tmp_path: Path) -> None:
    mine = tmp_path / "hosts.ini"
    mine.write_text("one\n")
    assert books.find_inventory("local") == str(FOLDER / "inventories" / "local.yaml")
    assert books.find_inventory("vagrant") == str(FOLDER / "inventories" / "vagrant")
    assert books.find_inventory(str(mine)) == str(mine)
    assert books.find_inventory("one,two,") == "one,two,"


@pytest.mark.parametrize(
    ("text", "said"),
    [("vagrnt", "did you mean 'vagrant'?"), ("qqq", "or one of local, machines"), ("", "or one of local, machines")],
)
def test_an_inventory_that_is_not_there_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        books.find_inventory(text)
    assert said in str(refused.value)


def test_a_playbook_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        books.find_book("provisoin")
    assert "did you mean 'provision'?" in str(refused.value)
