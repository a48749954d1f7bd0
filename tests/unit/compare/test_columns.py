"""The columns of a comparison: equal bandwidth, the same faults, and what differs said in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.chaos.scenario import Scenario, load_scenario
from testbed.compare import columns, unlike
from testbed.compare.columns import COLUMNS, Variant, entry, lab_of, variants
from testbed.topology import clos
from testbed.topology.errors import InputError
from testbed.topology.labfile import load_lab

DEMO = load_lab("demo")

TEXT = """
lab: demo
duration: 4 s
transport: {evs_per_plane: 2, retry_count: 3}
workloads:
  - {kind: write_bw, pairs: permutation, load: full}
faults:
  - {kind: link-down, target: "p2t0-1:p2t1-3", at: 1 s, for: 500 ms}
  - {kind: loss, target: links tier=t0-t1 plane=3 pick=2, loss: 1%, at: 2 s, for: 1 s}
  - {kind: not-forwarding, target: switch p1t1-0, at: 3500 ms}
"""


def scenario(folder: Path, text: str = TEXT) -> Scenario:
    path = folder / "one.yaml"
    path.write_text(text)
    return load_scenario(path)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=lambda column: column.name)
def test_every_host_has_the_same_bandwidth_and_so_has_every_rack(column: columns.Column) -> None:
    lab = lab_of(column, DEMO)
    assert lab.planes * lab.rates.host == DEMO.planes * DEMO.rates.host
    assert lab.planes * lab.t1s_per_plane * lab.rates.fabric == DEMO.planes * DEMO.t1s_per_plane * DEMO.rates.fabric
    assert (lab.hosts, lab.hosts_per_t0) == (DEMO.hosts, DEMO.hosts_per_t0)
    assert lab.time_dilation == DEMO.time_dilation
    assert (lab.transport.kind, lab.routing) == (column.kind, column.routing)
    assert len(lab.name) <= 15
    clos.build(lab)


@pytest.mark.parametrize(("planes", "exponent"), [(2, 5), (4, 4), (8, 3)])
def test_roce_is_tried_with_the_first_timeout_that_is_longer_than_a_full_queue_too(
    tmp_path: Path, planes: int, exponent: int
) -> None:
    spec = DEMO.model_copy(update={"planes": planes})
    text, eager = TEXT.replace("p2t0-1:p2t1-3", "p0t0-1:p0t1-3").replace("plane=3", "plane=0"), Variant(8, "eager")
    made = entry(COLUMNS["roce"], scenario(tmp_path, text.replace("p1t1", "p0t1")), spec, [eager])
    [(variant, sooner)] = made.sooner.items()
    assert (made.tried, variant) == ([eager], eager)
    assert made.scenarios[sooner].transport_of(made.spec).timeout_exponent == exponent
    assert made.scenarios[eager].transport_of(made.spec).timeout_exponent == 6
    full_ns = 8e9 * made.spec.queue.size / made.spec.stands_for.fabric
    assert 4096 * 2 ** (exponent - 1) < full_ns + 20_000 and full_ns < 4096 * 2**exponent
    assert sooner.file_name(made.column, 1) != eager.file_name(made.column, 1)


def test_a_timeout_that_is_asked_for_is_the_only_one(tmp_path: Path) -> None:
    asked = scenario(tmp_path, TEXT.replace("retry_count: 3", "timeout_exponent: 9"))
    assert not entry(COLUMNS["roce"], asked, DEMO, [Variant(8, "eager")]).sooner
    assert not entry(COLUMNS["mrc"], scenario(tmp_path), DEMO, [Variant()]).sooner


def test_faults_of_any_plane_happen_in_the_only_one(tmp_path: Path) -> None:
    made = entry(COLUMNS["roce"], scenario(tmp_path), DEMO, [Variant(8, "eager")])
    one = made.scenarios[Variant(8, "eager")]
    assert [fault.target for fault in one.faults] == [
        "p0t0-1:p0t1-3",
        "links tier=t0-t1 plane=0 pick=2",
        "switch p0t1-0",
    ]
    assert set(made.mapped.values()) == {fault.target for fault in one.faults}
    assert entry(COLUMNS["mrc-ecmp"], scenario(tmp_path), DEMO, [Variant()]).mapped == {}


def test_each_transport_keeps_its_own_settings_of_the_scenario(tmp_path: Path) -> None:
    wanted = scenario(tmp_path)
    roce = entry(COLUMNS["roce"], wanted, DEMO, [Variant(8, "eager")])
    one = roce.scenarios[Variant(8, "eager")]
    settings = one.transport_of(roce.spec)
    assert (settings.kind, settings.dcqcn, settings.retry_count) == ("roce", "eager", 3)
    assert settings.evs_per_plane is None
    assert {work.qps for work in one.workloads} == {8}
    mrc = entry(COLUMNS["mrc"], wanted, DEMO, [Variant()])
    [one] = mrc.scenarios.values()
    settings = one.transport_of(mrc.spec)
    assert (settings.kind, settings.evs_per_plane) == ("mrc", 2)
    assert {work.qps for work in one.workloads} == {1}


def test_roce_is_tried_with_each_setting_and_mrc_with_one() -> None:
    assert len(variants(COLUMNS["roce"], (1, 8, 16), columns.DCQCN_PROFILES)) == 12
    assert variants(COLUMNS["mrc"], (1, 8, 16), columns.DCQCN_PROFILES) == [Variant()]
    with pytest.raises(InputError, match="published"):
        variants(COLUMNS["roce"], (1,), ("best",))
    with pytest.raises(InputError, match="mrc"):
        columns.find(["mrcc"])


def test_what_the_scenario_expects_is_expected_of_mrc_alone(tmp_path: Path) -> None:
    text = TEXT.replace("load: full", "load: full, expect: {min_goodput_fraction: 90%}") + "expect: {packets_lost: 0}\n"
    for name in ("mrc", "mrc-ecmp", "roce"):
        [variant, *_] = variants(COLUMNS[name], (8,), ("eager",))
        found = entry(COLUMNS[name], scenario(tmp_path, text), DEMO, [variant]).scenarios[variant]
        of_workload = found.workloads[0].expect.model_fields_set
        assert bool(of_workload) == (name == "mrc")
        assert found.expect.model_fields_set == ({"packets_lost"} if name == "mrc" else {"bytes_wrong"})


def test_what_is_unlike_is_said(tmp_path: Path) -> None:
    wanted = scenario(tmp_path)
    entries = [
        entry(COLUMNS[name], wanted, DEMO, variants(COLUMNS[name], (1,), ("eager",)))
        for name in ("mrc", "mrc-ecmp", "roce", "roce-bgp")
    ]
    said = " ".join(unlike.said(entries))
    for words in (
        "one plane of 80 Mb/s a port",
        "mrc: 1/16",
        "roce: 1/4",
        "outer IPv6",
        "p2t0-1:p2t1-3 is p0t0-1:p0t1-3",
        "BFD",
    ):
        assert words in said, words
    assert unlike.said(entries[:1]) == []


@pytest.mark.parametrize(("exponent", "told"), [(6, True), (0, True), (4, False), (3, False)])
def test_a_timeout_of_roce_that_is_longer_than_it_has_to_be_is_told(tmp_path: Path, exponent: int, told: bool) -> None:
    wanted = scenario(tmp_path, TEXT.replace("retry_count: 3", f"timeout_exponent: {exponent}"))
    said = " ".join(unlike.said([entry(COLUMNS["roce"], wanted, DEMO, [Variant(1, "eager")])]))
    assert ("65.5 us (--set transport.timeout_exponent=4)" in said) == told


def test_what_a_column_cannot_have_is_refused_with_the_reason(tmp_path: Path) -> None:
    text = TEXT.replace("target: switch p1t1-0, at: 3500 ms", "target: switch p1t1-9, at: 3500 ms")
    with pytest.raises(InputError, match="p0t1-9"):
        entry(COLUMNS["roce"], scenario(tmp_path, text), DEMO, [Variant(1, "eager")])
