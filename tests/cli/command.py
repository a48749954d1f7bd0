"""How tests read a verb's answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

Answer = subprocess.CompletedProcess[str]
Mrclab = Callable[..., Answer]

TINY = "planes: 2\nt0_groups: 2\nhosts_per_t0: 2\nt1s_per_plane: 2\n"


def parsed(answer: Answer) -> dict[str, Any]:
    """The one JSON object of a verb's stdout."""
    value = json.loads(answer.stdout)
    assert isinstance(value, dict) and value["schema_version"] == 1
    return value


def only_line(answer: Answer) -> str:
    """The one line in which a verb refused."""
    lines = answer.stderr.strip().splitlines()
    assert len(lines) == 1, answer.stderr
    return lines[0]
