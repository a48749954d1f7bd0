"""docs/faults.md: kinds, targets, times and expectations, from the tables that the code runs on.

`python -m testbed.chaos.document` writes the page to stdout; a test holds that docs/faults.md is it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from testbed.chaos.expectations import EXPECTATIONS, Expectation
from testbed.chaos.kinds import KINDS
from testbed.chaos.kinds.kind import SHAPES, Kind
from testbed.chaos.kinds.options import OPTIONS
from testbed.chaos.scenario import FaultEntry
from testbed.topology import targets
from testbed.topology.units import format_duration

_HEAD = """\
# Faults

What can be broken, in a scenario file and by hand. This page is made from the code's own tables
(`python -m testbed.chaos.document`).

```sh
mrclab fault black-hole p0t0-0:p0t1-1              # stays until it is cleared
mrclab fault loss links tier=t0-t1 plane=0 pick=2 --loss 1% --for 5s
mrclab fault list
mrclab fault clear                                 # or: clear NUMBER
mrclab repair                                      # clears faults, puts back what the lab lacks, starts dead agents
```

```yaml
faults:
  - {kind: link-flap, target: links tier=t0-t1 pick=1, at: 3 s, every: 500 ms, count: 8, jitter: 100 ms}
  - {kind: loss, target: plane 1, loss: 0.5%, at: 4 s, for: 2 s, expect: {max_dip: 5%}}
  - {kind: link-down, target: links tier=nic-t0, mtbf: 20 s, mttr: 200 ms}
```

Every fault is written to a journal, with what it found, before it acts. It is undone when its time is over, when the
run ends in whatever way, by the next run, or by `mrclab fault clear`. Faults may overlap: of several that hold the same
port or setting the latest stands, and when the last one ends, what was there before the first is restored. In a
scenario two faults that would set one thing to two values at once are refused, unless chance brought them together.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, _kinds(), _targets(), _times(), _expectations()])


def _kinds() -> str:
    rows = [
        (f"`{kind.name}`", _target(kind), kind.doc, f"`{kind.end}`" if kind.end else "", _options(kind))
        for kind in KINDS.values()
    ]
    options = [(f"`{option.name}`", option.doc, f"`{option.example}`") for option in OPTIONS.values()]
    return "\n".join([
        "## Kinds", "", *_table(["kind", "happens to", "what it does", "end", "options (default)"], rows), "",
        "`near` is the end in the lower tier: the NIC's of a NIC-T0 link, the T0's of a T0-T1 link.", "",
        *_table(["option", "what it is", "example"], options), "",
    ])  # fmt: skip


def _target(kind: Kind) -> str:
    words, example = SHAPES[kind.takes]
    return f"{words}: `{example}`"


def _options(kind: Kind) -> str:
    shown = [f"`{name}` ({OPTIONS[name].show(value)})" for name, value in kind.defaults.items()]
    if kind.lasts_ns is not None:
        shown.append(f"`for` ({format_duration(kind.lasts_ns)})")
    if kind.needs_netem:
        shown.append("needs netem")
    if kind.only_mrc:
        shown.append("MRC only")
    return ", ".join(shown)


def _targets() -> str:
    assert targets.__doc__ is not None
    lines = targets.__doc__.splitlines()
    forms = [line[4:] for line in lines if line.startswith("    ")]
    return "\n".join(["## Targets", "", "```", *forms, "```", "", "`pick` draws anew each time, from the seed.", ""])


def _times() -> str:
    names = ["at", "for_", "every", "count", "jitter", "mtbf", "mttr", "expect"]
    fields = {name: FaultEntry.model_fields[name] for name in names}
    rows = [(f"`{field.alias or name}`", field.description or "") for name, field in fields.items()]
    return "\n".join(["## Times", "", *_table(["key", "what it is"], rows), ""])


def _expectations() -> str:
    rows = [(f"`{row.name}`", row.doc, row.unit, _places(row)) for row in EXPECTATIONS.values()]
    return "\n".join([
        "## Expectations", "",
        "`expect` stands in a scenario, in a fault's entry (for each of its faults), or in a workload (for its flows).",
        "", *_table(["name", "what is held against the limit", "unit", "can be asked of"], rows),
    ])  # fmt: skip


def _places(row: Expectation) -> str:
    return ", ".join(["run", *(["faults"] if row.of_faults else []), *(["flows"] if row.of_flows else [])])


def _table(head: list[str], rows: Iterable[Iterable[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
