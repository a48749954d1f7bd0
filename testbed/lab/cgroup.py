"""What the control groups (v2) of this process leave of memory and processes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def left(limit: str, used: str, top: Path = Path("/")) -> int | None:
    """The least that its group and those above it leave, `limit` minus `used` (files' names); None: no limit is known.

    `top`: a folder that stands for /. Control groups of version 1 are not looked at.
    """
    try:
        lines = (top / "proc/self/cgroup").read_text().splitlines()
        own = next(line for line in lines if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    root = top / "sys/fs/cgroup"
    group = root / own.removeprefix("0::").lstrip("/")
    found = []
    for folder in (group, *group.parents):
        with suppress(OSError, ValueError):  # no such file at the top; `max` is no number
            found.append(int((folder / limit).read_text()) - int((folder / used).read_text()))
        if folder == root:
            break
    return min(found, default=None)
