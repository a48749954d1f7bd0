"""A capture in words: tshark with this project's dissector, `mrc.lua`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from testbed.topology.errors import MissingError

DISSECTOR = Path(__file__).parent / "mrc.lua"


def decode(capture: Path, *, verbose: bool = False) -> Iterator[str]:
    """The packets of a capture file, a line for each, or `verbose` with every field.

    Raises MissingError when there is no tshark.
    """
    tshark = shutil.which("tshark")
    if tshark is None:
        raise MissingError("tshark", "decodes captures", "apt-get install tshark")
    command = [tshark, "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), *(["-V"] if verbose else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield line.rstrip("\n")
