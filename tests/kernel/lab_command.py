"""`python -m tests.kernel.lab_command LAB_FILE`: brings a lab up as a process of its own, to be killed or interrupted.

Writes a line per phase to stdout, so that a test can wait for one.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from testbed.lab import lifecycle
from testbed.topology.errors import MrclabError
from testbed.topology.labfile import load_lab


def main() -> int:
    path = Path(sys.argv[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a test in the background would have it ignored

    def say(phase: str, done: int, of: int) -> None:
        sys.stdout.write(f"{phase} {done}/{of}\n")
        sys.stdout.flush()

    try:
        lifecycle.up(load_lab(path), path, say)
    except KeyboardInterrupt:
        return 130
    except MrclabError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
