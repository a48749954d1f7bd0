"""The labs of the benches: each bench takes down what it brought up, and no other's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testbed.bench import growth, up
from testbed.lab import lifecycle
from testbed.topology.errors import InputError


def bench_up() -> None:
    with up.BENCH.prepare(lambda words: None) as once:
        once()


def bench_growth() -> None:
    growth.costs(growth.spec(2))


@pytest.mark.parametrize("bench", [bench_up, bench_growth])
def test_a_lab_that_another_bench_has_up_stays_up(monkeypatch: pytest.MonkeyPatch, bench: Callable[[], None]) -> None:
    def refuse(*_: Any) -> None:
        raise InputError("a lab of that name is up from another file")

    gone: list[str] = []
    monkeypatch.setattr(lifecycle, "up", refuse)
    monkeypatch.setattr(lifecycle, "down", gone.append)
    with pytest.raises(InputError):
        bench()
    assert gone == []
