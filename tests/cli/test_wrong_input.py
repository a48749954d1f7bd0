"""Wrong input is refused in one line that says what would be right, with exit code 2, and changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from command import TINY, Mrclab, only_line

from testbed.fabric import netem

SCENARIO = """\
duration: 3 s
workloads:
  - {kind: write_bw, load: 50%}
faults:
  - {kind: link-down, target: "p0t0-0:p0t1-1", at: 1500 ms, for: 500 ms}
"""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["upp"], "did you mean 'up'?"),
        (["up", "dmeo"], "did you mean 'demo'?"),
        (["run", "link-flop"], "did you mean 'link-flap'?"),
        (["up", "--loud"], "--loud"),
        (["graph", "--format", "gif"], "gif"),
        (["trace", "h0", "h99"], "h99"),
        (["trace", "h0", "h5", "--ev", "0xffffffff"], "a near one is"),
        (["run", "link-flap", "--set", "transport.retire=false"], "retire"),
        (["run", "link-flap", "--set", "transport.dcqcn=eager"], "add 'kind: roce', or leave dcqcn out"),
        (["sim", "collisions", "--set", "transport.evs_per_plane=2"], "add 'kind: mrc', or leave evs_per_plane out"),
        (["run", "link-flap", "--seed", "-1"], "0 or more"),
        (["run", "link-flap", "--seed", str(1 << 99)], "or less"),
        (["validate", "x" * 5000], "there is no lab file"),
        (["bench", "sim", "--out", "/proc/a/b"], "/proc/a/b cannot be written: No such file or directory"),
    ],
)
def test_a_slip_of_the_pen(mrclab: Mrclab, arguments: list[str], says: str) -> None:
    answer = mrclab(*arguments)
    assert answer.returncode == 2
    assert says in only_line(answer)
    assert answer.stdout == ""


def test_an_earlier_result_without_what_is_measured_now(mrclab: Mrclab, tmp_path: Path) -> None:
    earlier = tmp_path / "a.json"
    earlier.write_text('{"benches": {"up": {"ratio": 0.4}}}')
    answer = mrclab("bench", "sim", "--check", str(earlier))
    assert answer.returncode == 2
    assert only_line(answer).endswith("a.json has no ratio of sim; it has up")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (TINY + "plains: 2\n", 5, "planes"),
        (TINY.replace("planes: 2", "planes: 9"), 1, "8"),
        (TINY + "planes: 2\n", 5, "planes"),
        (TINY.replace("hosts_per_t0: 2", "hosts_per_t0: none"), 3, "whole number"),
        (TINY + "mtu: 1500\n", 5, "4228"),
        (TINY + "transport: {retry_count: 3}\n", 5, "leave retry_count out"),
    ],
)
def test_a_wrong_lab_file(mrclab: Mrclab, tmp_path: Path, text: str, line: int, says: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    for verb in ("validate", "up"):
        answer = mrclab(verb, str(file))
        assert answer.returncode == 2
        assert f"wrong.yaml:{line}:" in only_line(answer)
        assert says in answer.stderr


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("p0t1-1", "p0t1-9", 5, "p0t1-"),
        ("at: 1500 ms", "at: 5 s", 5, "5 s"),
        ("load: 50%", "load: 101%", 3, "101%"),
        ("for: 500 ms", "for: 500", 5, "500"),
        ("link-down", "link-dwn", 5, "link-down"),
        ("at: 1500 ms", "at: -1 s", 5, "-1 s"),
        ("link-down", "loss, loss: 101%", 5, "101%"),
        ("link-down", "t1-reboot", 5, "write it like 'switch p0t1-2'"),
        ("link-down", "link-down, loss: 1%", 5, "link-down takes no loss"),
        ('"p0t0-0:p0t1-1"', "links tier=t0-t1 pick=99", 5, "pick=32 or less"),
        ('"p0t0-0:p0t1-1"', "swich p0t1-1", 5, "did you mean 'switch'?"),
    ],
)
def test_a_wrong_scenario(mrclab: Mrclab, tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(SCENARIO.replace(old, new))
    for verb in ("validate", "run"):
        answer = mrclab(verb, str(file))
        assert answer.returncode == 2
        assert f"wrong.yaml:{line}:" in only_line(answer)
        assert says in answer.stderr


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("kind: ev-loss, target: host h0 plane 0 t1 0", "name an EV"),
        ("kind: denylist-set, target: 'p0t0-0:p0t1-1'", "name a NIC-T0 link"),
        ("kind: denylist-set, target: 'h0:p0t0-0'", "queue pairs of RoCE have one path and no EVs"),
        ("kind: trimming-off, target: 'p0t0-0:p0t1-1'", "packets of RoCE are never trimmed"),
    ],
)
def test_what_changes_nothing_where_switches_hash_or_nobody_trims(
    mrclab: Mrclab, tmp_path: Path, fault: str, says: str
) -> None:
    file = tmp_path / "wrong.yaml"
    start = SCENARIO[: SCENARIO.index("  - {kind: link-down")]
    file.write_text(f"lab: baseline\n{start}  - {{{fault}, at: 1 s, for: 1 s}}\n")
    answer = mrclab("validate", str(file))
    assert answer.returncode == 2
    assert "wrong.yaml:6:" in only_line(answer)
    assert says in answer.stderr


def test_the_scenario_that_the_wrong_ones_are_made_from_is_right(mrclab: Mrclab, tmp_path: Path) -> None:
    file = tmp_path / "right.yaml"
    file.write_text(SCENARIO)
    assert mrclab("validate", str(file)).returncode == 0


def test_no_lab_is_up(mrclab: Mrclab) -> None:
    answer = mrclab("status", "cli-nowhere")
    assert answer.returncode == 2
    assert "cli-nowhere" in only_line(answer)


@pytest.mark.parametrize("verb", [["down"], ["status"], ["cli"], ["fault", "list", "--lab"]])
def test_a_path_is_no_lab_and_stays(mrclab: Mrclab, tmp_path: Path, verb: list[str]) -> None:
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "file").write_text("mine")
    for name in (str(folder), f"../..{folder}", str(folder / "file")):
        answer = mrclab(*verb, name)
        assert answer.returncode == 2
        assert "is not the name of a lab" in only_line(answer)
    assert (folder / "file").read_text() == "mine"


def test_help_names_the_command_and_not_its_module(mrclab: Mrclab) -> None:
    assert mrclab("up", "--help").stdout.startswith("Usage: mrclab up ")


@pytest.mark.parametrize(("what", "key"), [("lab", "planes"), ("scenario", "workloads")])
def test_the_schema_of_a_file_says_what_each_key_means(mrclab: Mrclab, what: str, key: str) -> None:
    schema = json.loads(mrclab("schema", what).stdout)
    assert schema["properties"][key]["description"]
    assert "name" not in schema["required"]


def test_a_full_disk_is_told_in_words(mrclab: Mrclab) -> None:
    with Path("/dev/full").open("w") as full:
        answer = mrclab("validate", "tiny", stdout=full, capture_output=False, stderr=subprocess.PIPE)
    assert answer.returncode == 3
    assert "No space left on device" in only_line(answer)


def test_a_shell_completes_verbs(mrclab: Mrclab) -> None:
    asked = {"_MRCLAB_COMPLETE": "bash_complete", "COMP_WORDS": "mrclab val", "COMP_CWORD": "1"}
    assert mrclab(env={**os.environ, **asked}).stdout == "plain,validate\n"


def test_help_shows_each_verb_in_a_whole_line(mrclab: Mrclab) -> None:
    listed = mrclab("--help").stdout.partition("Commands:")[2].strip().splitlines()
    assert len(listed) > 10
    assert not [line for line in listed if line.endswith("...")]


def test_two_faults_that_contradict_each_other(mrclab: Mrclab, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    lossy = '  - {{kind: loss, target: "{}", at: {}, loss: {}}}\n'
    file.write_text(SCENARIO + lossy.format("p0t0-0:p0t1-1", "1 s", "1%") + lossy.format("plane 0", "2 s", "2%"))
    answer = mrclab("validate", str(file))
    assert answer.returncode == 2
    assert "wrong.yaml:7:" in only_line(answer)
    assert "holds otherwise" in answer.stderr


@pytest.mark.kernel
def test_a_delay_where_there_is_no_netem_is_refused_before_a_lab_is_up(mrclab: Mrclab, tmp_path: Path) -> None:
    if not netem.trouble():
        pytest.skip("this kernel has netem")
    lab = tmp_path / "c2-none.yaml"
    lab.write_text(TINY)
    file = tmp_path / "slow.yaml"
    file.write_text(f"lab: {lab}\n" + SCENARIO.replace("link-down", "delay"))
    assert mrclab("validate", str(file)).returncode == 0
    answer = mrclab("run", str(file))
    assert answer.returncode == 3
    assert "netem" in only_line(answer) and "modprobe" in answer.stderr
    assert mrclab("status", "c2-none").returncode == 2
