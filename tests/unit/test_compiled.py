"""The protocol compiled and as plain Python: two ways to run one source, and every result is the same, bit for bit."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents import compiled

SCENARIO = """\
lab: tiny
duration: 1500 ms
workloads:
  - {kind: write_bw, pairs: across, load: 90%}
faults:
  - {kind: link-down, target: "p0t0-0:p0t1-1", at: 1100 ms, for: 200 ms}
"""
FILES = ("events.jsonl", "samples.jsonl", "summary.json")


def digests(folder: Path, scenario: Path, **environment: str) -> dict[str, str]:
    """Of what a simulated run leaves, by file; and under `mode`, how it ran."""
    program = (
        "import sys; from agents import compiled; from testbed.cli.main import cli\n"
        "print(compiled.in_use()); cli.main(sys.argv[1:], standalone_mode=False)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, "sim", str(scenario), "--out", str(folder)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
    return {"mode": answer.stdout.splitlines()[0], **hashes}


@pytest.mark.skipif(
    not compiled.is_built(compiled.build_folder()),
    reason="the agents are not compiled here: python -m agents.build",
)
def test_a_seeded_run_is_the_same_compiled_and_not(tmp_path: Path) -> None:
    scenario = tmp_path / "short.yaml"
    scenario.write_text(SCENARIO)
    fast = digests(tmp_path / "compiled", scenario, **{compiled.PURE_VARIABLE: ""})
    plain = digests(tmp_path / "plain", scenario, **{compiled.PURE_VARIABLE: "1"})
    assert (fast.pop("mode"), plain.pop("mode")) == ("True", "False")
    assert fast == plain
    scenario.write_text(SCENARIO + "seed: 2\n")
    assert digests(tmp_path / "other", scenario)["events.jsonl"] != plain["events.jsonl"]


def test_a_build_is_found_by_its_very_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = compiled.build_folder()
    changed = tmp_path / "agents"
    for path in compiled.sources():
        copy = changed / path.relative_to(compiled.SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    monkeypatch.setattr(compiled, "SOURCE", changed)
    assert compiled.build_folder() == before
    with (changed / "wire" / "psn.py").open("a") as file:
        file.write("# another source\n")
    assert compiled.build_folder() != before


def test_plain_python_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.PURE_VARIABLE, "1")
    path: list[str] = []
    compiled.use(path)
    assert path == []


def test_what_is_compiled_uses_nothing_of_the_agents_that_is_not() -> None:
    names = {
        ".".join(("agents", *path.relative_to(compiled.SOURCE).with_suffix("").parts)) for path in compiled.sources()
    }
    known = {name.removesuffix(".__init__") for name in names}
    for path in filter(compiled.is_compiled, compiled.sources()):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agents."):
                assert node.module in known, f"{path.name} imports {node.module}"
