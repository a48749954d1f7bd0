"""Scenario files for tests: a good one, and ways to load it with something changed."""

from __future__ import annotations

from pathlib import Path

from testbed.chaos.scenario import Scenario, load_scenario
from testbed.topology import clos
from testbed.topology.clos import Clos
from testbed.topology.labspec import LabSpec

GOOD = """\
lab: small
duration: 10 s
warmup: 1 s
workloads:
  - kind: write_bw
    pairs: across
    message: 32 KB
    load: 70%
faults:
  - kind: link-down
    target: p0t0-0:p0t1-1
    end: far
    at: 3 s
    for: 1 s
expect:
  bytes_wrong: 0
  min_goodput_fraction: 95%
  rerouted_within: 100 ms
"""


def small_lab() -> Clos:
    """2 planes, 2 racks x 2 hosts, 2 T1s."""
    return clos.build(LabSpec(name="small", planes=2, t0_groups=2, hosts_per_t0=2, t1s_per_plane=2))


def write(folder: Path, text: str = GOOD) -> Path:
    """The text as a file named `case.yaml`."""
    path = folder / "case.yaml"
    path.write_text(text)
    return path


def load(folder: Path, *changes: tuple[str, str], overrides: tuple[str, ...] = ()) -> Scenario:
    """The good scenario with some text replaced by other text."""
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return load_scenario(write(folder, text), overrides)
