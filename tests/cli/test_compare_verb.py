"""`mrclab compare` as a person uses it: the table, the exit codes, and what is refused with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Mrclab, only_line, parsed

SHORT = """
lab: tiny
duration: 900 ms
warmup: 300 ms
workloads:
  - {kind: write_bw, pairs: [[h0, h2]], load: 50%}
expect: {bytes_wrong: 0}
"""
FEW = ("--sim", "--qps", "1", "--dcqcn", "eager")


def test_a_table_a_page_and_one_object(mrclab: Mrclab, tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    answer = mrclab("compare", "short.yaml", *FEW)
    assert answer.returncode == 0, answer.stderr
    for words in ("mrc-ecmp", "goodput of all streams", "unlike: ", "roce-bgp is not here"):
        assert words in answer.stdout, words
    assert (tmp_path / "runs" / "short-compare-sim" / "compare.html").stat().st_size > 0
    told = parsed(mrclab("compare", "short.yaml", *FEW, "--columns", "mrc", "--json"))
    assert [one["name"] for one in told["columns"]] == ["mrc"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--seeds", "99999999999"), "10000"),
        (("--seeds", "2", "--set", "seed=4294967295"), "2 seeds from"),
        (("--columns", "mrcc"), "there is no column 'mrcc'; did you mean 'mrc'?"),
        (("--dcqcn", "best"), "no DCQCN profile is called 'best'"),
        (("--qps", "0,8"), "write 1 to 64"),
        (("--qps", "²"), "write 1 to 64"),
        (("--set", "workloads.0.kind=gossip"), "'gossip'"),
        (("--columns", "roce-bgp"), "no routing protocol runs in virtual time"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    mrclab: Mrclab, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    answer = mrclab("compare", "short.yaml", "--sim", *arguments)
    assert answer.returncode == 2
    assert words in only_line(answer)
