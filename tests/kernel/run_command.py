"""`python -m tests.kernel.run_command LAB SCENARIO OUT`: a run as a process of its own, to be killed or interrupted.

Writes a line per look at the run to stdout: the names of what happened, so that a test can wait for it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from testbed.chaos.runner import run_scenario
from testbed.chaos.scenario import load_scenario
from testbed.lab.running import open_lab
from testbed.measure.record import Run, RunEvent
from testbed.topology.errors import MrclabError


def main() -> int:
    lab_name, scenario, out = sys.argv[1:]

    def say(run: Run, now_ns: int, events: list[RunEvent]) -> None:
        sys.stdout.write(" ".join(["live", *(type(event).__name__ for event in events)]) + "\n")
        sys.stdout.flush()

    try:
        with open_lab(lab_name) as lab:
            return run_scenario(load_scenario(scenario), lab, Path(out), live=say).exit_code
    except MrclabError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
