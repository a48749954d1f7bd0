"""A lab from the command line: up, looked into, broken by hand, and gone without a trace."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from command import TINY, Mrclab, only_line, parsed

pytestmark = pytest.mark.kernel


def test_up_says_what_it_made_and_down_leaves_nothing(mrclab: Mrclab, tiny_file: Path) -> None:
    made = parsed(mrclab("up", str(tiny_file), "--json"))
    try:
        counts = {key: made[key] for key in ("lab", "hosts", "switches", "links", "paths_verified")}
        assert counts == {"lab": "cli-tiny", "hosts": 4, "switches": 8, "links": 16, "paths_verified": 8}
        assert made["seconds"]["total"] > 0
        names = {name for name in os.listdir("/run/netns") if name.startswith("cli-tiny.")}
        assert len(names) == 12
        status = parsed(mrclab("status", "cli-tiny", "--json"))
        assert status["healthy"] and status["agents_alive"] == 4
    finally:
        assert mrclab("down", "cli-tiny").returncode == 0
    assert not [name for name in os.listdir("/run/netns") if name.startswith("cli-tiny.")]
    assert not Path("/run/mrclab/cli-tiny").exists()


def test_up_twice_is_no_error_but_another_file_is(
    mrclab: Mrclab, tiny_lab: str, tiny_file: Path, tmp_path: Path
) -> None:
    assert parsed(mrclab("up", str(tiny_file), "--json"))["already_up"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "cli-tiny.yaml").write_text(TINY)
    answer = mrclab("up", str(other / "cli-tiny.yaml"))
    assert answer.returncode == 2
    assert str(tiny_file) in only_line(answer)
    assert parsed(mrclab("status", tiny_lab, "--json"))["healthy"]


def test_ordinary_tools_reach_every_host(mrclab: Mrclab, tiny_lab: str) -> None:
    for dst in ("h1", "h2", "h3"):
        assert mrclab("exec", "--lab", tiny_lab, "h0", "--", "ping", "-c", "1", "-W", "2", dst).returncode == 0
    assert mrclab("exec", "--lab", tiny_lab, "h0", "--", "false").returncode == 1


def test_mininets_prompt_pings_all(mrclab: Mrclab, tiny_lab: str) -> None:
    answer = mrclab("cli", tiny_lab, input="pingall\nlinks\nh0 ping -c 1 h3\n")
    assert answer.returncode == 0
    said = answer.stdout + answer.stderr
    assert "0% dropped" in said
    assert "1 received" in said


def test_a_probe_takes_the_path_that_trace_names(mrclab: Mrclab, tiny_lab: str) -> None:
    for ev in parsed(mrclab("trace", "h0", "h3", "--lab", tiny_lab, "--json"))["evs"]:
        told = parsed(mrclab("trace", "h0", "h3", "--lab", tiny_lab, "--ev", ev["ev"], "--probe", "--json"))
        assert told["answered"]
        assert told["crossed"] == told["nodes"][1:-1]


def test_a_fault_by_hand_is_seen_and_undone(mrclab: Mrclab, tiny_lab: str) -> None:
    for end in ("near", "far", "both"):
        assert mrclab("fault", "link-down", "p0t0-0:p0t1-1", "--end", end, "--lab", tiny_lab).returncode == 0
        status = mrclab("status", tiny_lab)
        assert "link-down p0t0-0:p0t1-1" in status.stdout
        assert "differs" in status.stdout
        assert parsed(mrclab("fault", "list", "--lab", tiny_lab, "--json"))["faults"]
        assert mrclab("fault", "clear", "--lab", tiny_lab).returncode == 0
        assert parsed(mrclab("status", tiny_lab, "--json"))["healthy"]


def test_a_run_finds_the_lab_that_is_up_wherever_its_file_is(mrclab: Mrclab, tiny_lab: str, tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text("duration: 1 s\nwarmup: 0 s\nworkloads: [{kind: write_bw, load: 10%}]\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    answer = mrclab("run", "../short.yaml", "--lab", tiny_lab, "--out", "results", "--json", cwd=elsewhere)
    assert parsed(answer)["lab"] == tiny_lab
    assert (elsewhere / "results" / "summary.json").is_file()
    nowhere = mrclab("run", "../short.yaml", "--lab", tiny_lab, "--out", "/proc/x", cwd=elsewhere)
    assert nowhere.returncode == 2
    assert "/proc/x" in nowhere.stderr


def test_a_user_without_rights_may_look_but_not_touch(mrclab: Mrclab, tiny_lab: str) -> None:
    nobody = ["unshare", "--user"]
    assert mrclab("graph", tiny_lab, "--format", "json", before=nobody).returncode == 0
    assert mrclab("trace", "h0", "h3", "--lab", tiny_lab, before=nobody).returncode == 0
    answer = mrclab("exec", "--lab", tiny_lab, "h0", "--", "true", before=nobody)
    assert answer.returncode == 3
    assert "run it as root" in only_line(answer)


def test_a_link_that_is_not_there(mrclab: Mrclab, tiny_lab: str) -> None:
    answer = mrclab("fault", "link-down", "p0t0-0:p0t1-7", "--lab", tiny_lab)
    assert answer.returncode == 2
    assert "did you mean 'p0t0-0:p0t1-" in only_line(answer)


def test_a_record_that_cannot_be_read_hides_no_other_lab(mrclab: Mrclab, tiny_lab: str) -> None:
    damaged = Path("/run/mrclab/cli-damaged")
    damaged.mkdir()
    try:
        (damaged / "state.json").write_text("{")
        told = parsed(mrclab("list", "--json"))
        assert tiny_lab in {lab["lab"] for lab in told["labs"]}
        assert any("cli-damaged" in why for why in told["unreadable"])
        answer = mrclab("down", "cli-damaged")
        assert answer.returncode == 2
        assert str(damaged / "state.json") in only_line(answer)
    finally:
        shutil.rmtree(damaged)


def test_a_full_disk_does_not_keep_a_lab_up(mrclab: Mrclab, tiny_lab: str) -> None:
    full = ["prlimit", "--fsize=0"]  # no file can grow
    assert mrclab("down", tiny_lab, before=full).returncode == 0
    assert not Path("/run/mrclab", tiny_lab).exists()


def test_down_of_nothing_is_no_error(mrclab: Mrclab) -> None:
    assert mrclab("down", "cli-nowhere").returncode == 0


def test_without_root_it_says_so(mrclab: Mrclab, tiny_file: Path) -> None:
    answer = mrclab("up", str(tiny_file), before=["unshare", "--user"])  # no id is mapped there: nobody, without rights
    assert answer.returncode == 3
    assert "root" in only_line(answer)


def test_a_missing_program_is_named_with_the_command_that_mends_it(mrclab: Mrclab, tiny_file: Path) -> None:
    answer = mrclab("up", str(tiny_file), env={**os.environ, "PATH": "/nowhere"})
    assert answer.returncode == 3
    assert "clang" in answer.stderr and "apt-get install" in answer.stderr


def test_a_lab_that_would_not_come_up_in_time_is_refused_before_anything_is_made(
    mrclab: Mrclab, tmp_path: Path
) -> None:
    large = tmp_path / "cli-large.yaml"
    large.write_text("planes: 8\nt0_groups: 8\nhosts_per_t0: 1\nt1s_per_plane: 8\n")
    answer = mrclab("up", str(large), "--within", "500 ms")
    assert answer.returncode == 3
    assert " s to bring it up, 0.5 s are allowed (for 8 hosts, 128 switches and 576 links)" in only_line(answer)
    assert "t0_groups fits, or allow more: mrclab up LAB --within" in only_line(answer)
    assert not Path("/run/mrclab/cli-large").exists()
