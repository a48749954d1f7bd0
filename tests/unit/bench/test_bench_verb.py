"""`mrclab bench`: what is in its file when it ends early."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testbed.bench import frame
from testbed.bench.frame import Alternation, Bench, Say
from testbed.cli.bench import bench_verb
from testbed.topology.errors import MrclabError


@contextmanager
def _good(say: Say) -> Iterator[Alternation]:
    yield lambda: {"ratio": 0.5}


@contextmanager
def _failing(say: Say) -> Iterator[Alternation]:
    raise MrclabError("it fails")
    yield


@pytest.mark.parametrize(("names", "kept"), [(["good", "failing"], ["good"]), (["failing", "good"], None)])
def test_what_was_measured_is_kept_and_no_empty_file(
    names: list[str], kept: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare: dict[str, Any] = {"good": _good, "failing": _failing}
    monkeypatch.setattr(frame, "find", lambda name: Bench(title=name, prepare=prepare[name], needs_root=False))
    out = tmp_path / "a.json"
    with pytest.raises(MrclabError):
        bench_verb.main([*names, "--out", str(out)], standalone_mode=False)
    assert (list(json.loads(out.read_text())["benches"]) if out.exists() else None) == kept
