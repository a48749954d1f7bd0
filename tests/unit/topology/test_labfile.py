"""Lab files: the ones that come with mrclab, what a file may leave out, and the schema."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from testbed.topology import clos, library
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab, schema

SHIPPED = {
    # name: (planes, hosts, nodes, links)
    "tiny": (2, 4, 12, 16),
    "demo": (4, 8, 32, 64),
    "eight-plane": (8, 8, 56, 128),
    "cluster-d": (1, 16, 24, 32),
    "eight-t1": (1, 4, 14, 20),
    "wide": (8, 64, 192, 1024),
    "baseline": (1, 8, 14, 16),
    "baseline-bgp": (1, 8, 14, 16),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_labs_have_the_shape_they_promise(name: str) -> None:
    spec = load_lab(name)
    fabric = clos.build(spec)
    assert spec.name == name
    assert (spec.planes, spec.hosts, len(fabric.nodes), len(fabric.links)) == SHIPPED[name]


def test_every_shipped_lab_is_in_this_table() -> None:
    assert set(library.names("topologies")) == set(SHIPPED)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_path_and_a_name_find_the_same_lab() -> None:
    assert load_lab(library.folder("topologies") / "demo.yaml") == load_lab("demo")


def test_a_stray_file_of_that_name_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "demo", "planes: 1")
    assert load_lab("demo").planes == 4


def test_a_missing_lab_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no lab file 'dmeo', and no lab of that name; did you mean 'demo'\?"):
        load_lab("dmeo")
    with pytest.raises(InputError, match=f"come with mrclab: {', '.join(sorted(SHIPPED))}"):
        load_lab("zzz")


def test_a_folder_is_no_lab(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: is a directory"):
        load_lab(tmp_path)


def test_the_name_is_the_files_unless_the_file_says_one(tmp_path: Path) -> None:
    shape = "planes: 1\nt0_groups: 1\nhosts_per_t0: 2\nt1s_per_plane: 1\n"
    assert load_lab(write(tmp_path / "mine.yaml", shape)).name == "mine"
    assert load_lab(write(tmp_path / "yours.yaml", f"name: ours\n{shape}")).name == "ours"


def test_dilation_is_real_over_emulated_rate() -> None:
    assert load_lab("demo").time_dilation == 5000  # 100 Gb/s over 20 Mb/s


def test_the_schema_knows_every_key_of_every_shipped_lab() -> None:
    document = schema()
    assert "name" not in document["required"]
    assert {"planes", "t0_groups", "hosts_per_t0", "t1s_per_plane"} == set(document["required"])
    for name in SHIPPED:
        data = yaml.safe_load((library.folder("topologies") / f"{name}.yaml").read_text())
        assert set(data) <= set(document["properties"])
        assert set(document["required"]) <= set(data)


def test_the_schema_describes_every_key() -> None:
    document = schema()
    for section in (document, *document["$defs"].values()):
        for key, field in section["properties"].items():
            assert field.get("description"), key


def test_names_that_the_schema_takes_are_short_enough_for_the_kernel() -> None:
    name = schema()["properties"]["name"]
    assert name["maxLength"] == 15
    assert re.fullmatch(name["pattern"], "a-name-of-15-ch")
