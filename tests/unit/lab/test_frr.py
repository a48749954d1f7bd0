"""What routing daemons need is asked for before anything is made, and refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab import frr
from testbed.topology import clos
from testbed.topology.errors import MissingError
from testbed.topology.labspec import LabSpec

FABRIC = clos.build(LabSpec(name="lab", planes=1, t0_groups=2, hosts_per_t0=1, t1s_per_plane=2, routing="bgp"))


def daemons(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_without_frr_the_fix_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(frr, "DAEMONS", daemons(tmp_path, "zebra", "bgpd"))
    with pytest.raises(MissingError, match=r"FRR is missing: no bfdd in .*; apt-get install frr$") as refused:
        frr.require(FABRIC)
    assert refused.value.exit_code == 3


def test_without_its_user_it_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(frr, "DAEMONS", daemons(tmp_path, "zebra", "bgpd", "bfdd"))
    monkeypatch.setattr(frr, "USER", "mrclab-nobody")
    with pytest.raises(MissingError, match="there is no user mrclab-nobody"):
        frr.require(FABRIC)


def test_more_switches_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frr, "missing", lambda: "")
    monkeypatch.setattr(frr, "_free_mb", lambda: 4 * frr.MB_PER_SWITCH)
    frr.require(FABRIC)
    monkeypatch.setattr(frr, "_free_mb", lambda: 4 * frr.MB_PER_SWITCH - 1)
    with pytest.raises(MissingError, match="136 MB of memory for the daemons of 4 switches, 135 MB are free"):
        frr.require(FABRIC)
