"""testbed.lab.limits: a lab that the machine cannot carry is refused with the numbers, and what would fit is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.fabric import plan
from testbed.lab import cgroup, effort, limits
from testbed.lab.limits import Machine
from testbed.lab.size import Size
from testbed.topology import clos
from testbed.topology.errors import MissingError
from testbed.topology.labspec import LabSpec

AMPLE = Machine(1 << 40, 1 << 20, 1 << 20, 1 << 20, 1 << 20)


def spec(planes: int = 4, t0_groups: int = 2, hosts_per_t0: int = 4, t1s_per_plane: int = 4) -> LabSpec:
    return LabSpec(
        name="limits",
        planes=planes,
        t0_groups=t0_groups,
        hosts_per_t0=hosts_per_t0,
        t1s_per_plane=t1s_per_plane,
    )


def test_the_size_computed_from_the_spec_is_that_of_the_plan() -> None:
    fabric = clos.build(spec(planes=2, t0_groups=3, hosts_per_t0=2, t1s_per_plane=5))
    desired = plan.build(fabric)
    size = Size.of(fabric.spec)
    assert (size.hosts, size.switches, size.nodes) == (len(fabric.hosts), len(fabric.switches), len(fabric.nodes))
    assert size.ports == sum(len(node.ports or ()) for node in desired.nodes.values())
    routes = [item for node in desired.nodes.values() for item in node.routes if item.kind == "unicast"]
    assert size.routes >= len(routes)


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        ({"memory_bytes": 256 << 20}, r"of memory, 256 MB are available \(for 8 hosts, 24 switches and 64 links\)"),
        ({"open_files": 263}, r"264 open files, 263 are allowed .*; ulimit -n 264"),
        ({"namespaces": 31}, "32 network namespaces, 31 are left"),
        ({"mounts": 63}, "64 mounts, 63 are left"),
        ({"processes": 57}, "58 processes, 57 are left"),
    ],
)
def test_what_is_lacking_is_said_with_its_numbers(lack: dict[str, int], words: str) -> None:
    limits.require(spec(), AMPLE)
    with pytest.raises(MissingError, match=words):
        limits.require(spec(), replace(AMPLE, **lack))


def test_what_would_fit_the_memory_is_said_and_fits() -> None:
    """The largest lab of this shape that is let through, and one rack more."""
    machine = replace(AMPLE, memory_bytes=3 << 30)
    large = spec(planes=8, t0_groups=64, hosts_per_t0=16, t1s_per_plane=8)
    with pytest.raises(MissingError, match=r"a lab of this shape with (\d+) t0_groups fits") as refused:
        limits.require(large, machine)
    fits = int(str(refused.value).split(" with ")[1].split()[0])
    assert 0 < fits < 64
    limits.require(large.model_copy(update={"t0_groups": fits}), machine)
    with pytest.raises(MissingError):
        limits.require(large.model_copy(update={"t0_groups": fits + 1}), machine)


def test_what_would_take_too_long_is_said_with_what_fits_and_how_to_allow_it() -> None:
    large = spec(planes=8, t0_groups=64, hosts_per_t0=16, t1s_per_plane=16)
    with pytest.raises(MissingError, match=r"about (\d+) s to bring it up, 120 s are allowed") as refused:
        limits.require(large, AMPLE)
    shown = str(refused.value)
    fits, allow_s = int(shown.split(" with ")[1].split()[0]), float(shown.split("--within ")[1].rstrip("s"))
    limits.require(large, AMPLE, within_s=allow_s)
    limits.require(large.model_copy(update={"t0_groups": fits}), AMPLE)
    with pytest.raises(MissingError):
        limits.require(large.model_copy(update={"t0_groups": fits + 1}), AMPLE)
    with pytest.raises(MissingError, match="no lab with such racks fits"):
        limits.require(spec(), AMPLE, within_s=0.01)


def test_time_grows_with_the_work_and_with_the_square_of_ports_alone() -> None:
    """512 hosts took 61 s and 256 took 15 s, on the machine of docs/scale.md."""
    quick, slow = (
        effort.seconds(Size.of(spec(planes=8, t0_groups=groups, hosts_per_t0=16, t1s_per_plane=16)))
        for groups in (16, 32)
    )
    assert 10 < quick < 25 and 45 < slow < 90
    small, double = (effort.seconds(Size.of(spec(t0_groups=groups, hosts_per_t0=1))) for groups in (8, 16))
    assert double / small < 4.0  # as there are four times the pairs of racks


def test_what_control_groups_leave_is_the_least_of_a_group_and_those_above(tmp_path: Path) -> None:
    groups = tmp_path / "sys/fs/cgroup"
    (groups / "a/b").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    assert cgroup.left("memory.max", "memory.current", tmp_path) is None
    (tmp_path / "proc/self/cgroup").write_text("1:name=x:/\n0::/a/b\n")
    assert cgroup.left("memory.max", "memory.current", tmp_path) is None
    for group, limit, used in (("a", "1000", "400"), ("a/b", "max", "300")):
        (groups / group / "memory.max").write_text(limit + "\n")
        (groups / group / "memory.current").write_text(used + "\n")
    assert cgroup.left("memory.max", "memory.current", tmp_path) == 600
    (groups / "a/b/memory.max").write_text("350\n")
    assert cgroup.left("memory.max", "memory.current", tmp_path) == 50


def test_the_largest_lab_that_can_be_written_is_refused_at_once() -> None:
    with pytest.raises(MissingError, match="131072 hosts"):
        limits.require(spec(8, 512, 256, 256))
